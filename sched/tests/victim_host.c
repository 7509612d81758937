/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Who loses a reservation (victim_of() of load.bpf.h), and who counts as one that used up a budget (count_period() of budget.bpf.h), for the host:
 * the functions themselves, which victim_host.rs has put into victim_rule.h, with the little of BPF that they need. See there.
 */
#include <stdbool.h>
#include <string.h>

#include "host/check.h"

#include "../../abi/include/sched_abi.h"
#include "../bpf/math/reserve.h"

struct reservation {
	struct ll_reservation r;
};

/* Number 0 is nobody's. */
static struct reservation all[9];
static u32 reservations_end = 9;

static struct reservation *reservation_of(u32 number)
{
	return number ? &all[number] : NULL;
}

#define bpf_for(i, from, to) for ((i) = (from); (i) < (to); (i)++)

#include "victim_rule.h"

enum { HOME = 1 };

/* Reservation @number, which may be revoked, took @use_us in a window of even seconds. */
static struct ll_reservation *put(u32 number, u32 use_us)
{
	struct ll_reservation *r = &all[number].r;
	u32 i;

	*r = (struct ll_reservation){ .state = LL_RESERVATION_ADMITTED, .home = HOME, .flags = LL_SPEC_REVOCABLE };
	for (i = 0; i < LL_LOAD_SAMPLES; i++)
		r->window_us[i] = use_us / LL_LOAD_SAMPLES;
	return r;
}

static void begin(void)
{
	memset(all, 0, sizeof(all));
}

/* Of alike ones the largest; never who may not be revoked, is another CPU's, or holds nothing; nobody where there is none else. */
static void the_largest_that_may_be_revoked(void)
{
	begin();
	CHECK(victim_of(HOME) == 0, "there is nobody");
	put(1, 400000);
	put(2, 800000);
	put(3, 600000);
	CHECK(victim_of(HOME) == 2, "the largest: %u", victim_of(HOME));
	all[2].r.flags &= ~LL_SPEC_REVOCABLE;
	CHECK(victim_of(HOME) == 3, "may not be revoked, the next: %u", victim_of(HOME));
	all[2].r.exhausted = 1;
	CHECK(victim_of(HOME) == 3, "nor where it used up budgets: %u", victim_of(HOME));
	all[3].r.home = HOME + 1;
	CHECK(victim_of(HOME) == 1 && victim_of(HOME + 1) == 3, "each CPU's own: %u", victim_of(HOME));
	all[1].r.state = LL_RESERVATION_REFUSED;
	CHECK(victim_of(HOME) == 0, "all that are left are invulnerable: %u", victim_of(HOME));
	put(1, 0);
	CHECK(victim_of(HOME) == 1, "one that took nothing, if there is no other: %u", victim_of(HOME));
}

/* Who used up a budget before the deadline in the window comes before a larger one that did not, however small; of several that did, the largest. */
static void exhausted_budgets_come_first(void)
{
	begin();
	put(1, 3000000);
	put(2, 100000)->exhausted = 1;
	put(3, 2000000);
	CHECK(victim_of(HOME) == 2, "it used up a budget: %u", victim_of(HOME));
	all[3].r.exhausted = 1 << 3;
	CHECK(victim_of(HOME) == 3, "the larger of two, four seconds ago: %u", victim_of(HOME));
	all[3].r.exhausted <<= 1;
	CHECK(victim_of(HOME) == 2, "what is longer ago is out of the window: %u", victim_of(HOME));
	all[2].r.exhausted <<= LL_LOAD_SAMPLES;
	CHECK(victim_of(HOME) == 1, "of nobody any more: the largest: %u", victim_of(HOME));
}

/* Whom the person uses comes last, whatever it used up; but before that who took next to nothing, whomever that serves. */
static void who_serves_comes_last(void)
{
	begin();
	put(1, 3000000)->serves = 1;
	all[1].r.exhausted = 1;
	put(2, SPARED_US + 4);
	CHECK(victim_of(HOME) == 2, "the one that serves nobody: %u", victim_of(HOME));
	put(2, SPARED_US);
	CHECK(victim_of(HOME) == 1, "it makes no overload: %u", victim_of(HOME));
	put(3, 2000000)->serves = 1;
	CHECK(victim_of(HOME) == 1, "of two that serve the one that used up a budget: %u", victim_of(HOME));
	all[1].r.exhausted = 0;
	CHECK(victim_of(HOME) == 1, "or the larger: %u", victim_of(HOME));
	all[3].r.exhausted = 1;
	CHECK(victim_of(HOME) == 3, "or the other: %u", victim_of(HOME));
}

/* A budget is used up where it is spent before the deadline: neither at it, nor where something is left. */
static void when_a_budget_is_used_up(void)
{
	struct ll_period was = { 100, 200, 0 };
	struct ll_reservation r = {};

	count_period(&r, &was, LL_WAS_HONOURED, 199);
	CHECK(r.exhausted == 1 && r.periods == 1 && !r.missed, "before the deadline");
	r.exhausted = 2;
	count_period(&r, &was, LL_WAS_HONOURED, 200);
	CHECK(r.exhausted == 2 && r.periods == 2, "at the deadline it had what it was promised, and no sooner");
	count_period(&r, &was, LL_WAS_IDLE, 150);
	CHECK(r.exhausted == 2 && r.periods == 2, "it wanted no more");
	r.overdue = 1;
	count_period(&r, &was, LL_WAS_HONOURED, 250);
	CHECK(r.exhausted == 2 && r.periods == 3 && r.missed == 1, "late");
	was.deadline_ns = 0;
	count_period(&r, &was, LL_WAS_HONOURED, 0);
	CHECK(r.exhausted == 2 && r.periods == 3, "before the first period there was none");
}

int main(void)
{
	the_largest_that_may_be_revoked();
	exhausted_budgets_come_first();
	who_serves_comes_last();
	when_a_budget_is_used_up();
	return failures ? 1 : 0;
}
