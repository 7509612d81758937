/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Arithmetic of reservations (Redline, OSDI 2008, section 6). No BPF, no kernel: host tests compile this file too.
 *
 * Bandwidths and loads are in parts per million of one CPU (_ppm): a reservation of 1 ms in 3 s is 333.
 */
#ifndef LIMELIGHT_MATH_RESERVE_H
#define LIMELIGHT_MATH_RESERVE_H

enum ll_load_consts {
	LL_WHOLE_PPM = 1000000,
	LL_LOAD_SAMPLES = 4,	/* samples of a second each: the observation window */
	LL_FORGOTTEN_S = 32,	/* after so many seconds a seventieth of what was admitted is left in S_load: nothing */
	LL_SURGE_NS = 5000000,	/* by so much a frame may be late (as was asked for beside Redline's Figure 5) */
	LL_SURGE_PERIOD_NS = 200000000,	/* of a fifth of a second, so that one period more or less is no more than a quarter of what a second has */
	LL_HUC_ROOM_PPM = 500000,	/* of what the HuC classes take no more is kept from those who do not serve the person: neither has it all */
	LL_SECOND_TELLS_US = 250000,	/* before so much of a second is over it says as little as if so much were */
};

/* The current reservation period of a process: from @start_ns on it is entitled to @budget_ns of CPU before @deadline_ns. */
struct ll_period {
	u64 start_ns;
	u64 deadline_ns;
	s64 budget_ns;
};

/* How the period that ll_renew() ended has been. */
enum ll_renewed {
	LL_GOES_ON = 0,	/* it has not ended */
	LL_WAS_HONOURED = 1,
	LL_WAS_IDLE = 2,	/* it did not want what was left of it */
};

/*
 * Has the process, which wakes up, used no more of its period than its share of the time that is over? Then a new one can begin here, as in the
 * constant bandwidth server (Abeni and Buttazzo, RTSS 1998): it takes no more than C in T so. By the listing alone it goes on with what is left
 * until the old deadline, spends that in the midst of its work, and waits: whoever wakes every T is late by whatever lies between its wake-ups
 * and its periods.
 */
static inline int ll_is_within_rate(const struct ll_period *period, u64 runtime_ns, u64 period_ns, u64 now)
{
	u64 left_us;

	if (period->budget_ns <= 0 || now >= period->deadline_ns || period_ns < 1000)
		return 0;
	left_us = (period->deadline_ns - now) / 1000;
	return (u64)period->budget_ns / 1000 >= left_us * (runtime_ns / 1000) / (period_ns / 1000);
}

/*
 * Listing 1: a new period of @period_ns with @runtime_ns, where this one's budget is spent, or its deadline has passed. Not where there is budget
 * left at the deadline and the process has not @slept since it was begun: it missed its deadline then, and its work is to be pushed through as
 * soon as possible.
 *
 * The listing has max(budget + C, C) for the new budget. Then who sleeps would save up budget without a bound, and who overran would be forgiven
 * that, both of which the text around it rules out: it must be min, and is here.
 */
static inline int ll_renew(struct ll_period *period, u64 runtime_ns, u64 period_ns, u64 now, int slept, int woke)
{
	int had_budget = period->budget_ns > 0, begins_anew = woke && ll_is_within_rate(period, runtime_ns, period_ns, now);

	if (had_budget && !begins_anew && (now < period->deadline_ns || !slept))
		return LL_GOES_ON;
	period->start_ns = now > period->deadline_ns || begins_anew ? now : period->deadline_ns;
	period->deadline_ns = period->start_ns + period_ns;
	period->budget_ns += (s64)runtime_ns;
	if (period->budget_ns > (s64)runtime_ns)
		period->budget_ns = (s64)runtime_ns;
	/* A stint that nobody could end, beside a real-time process say, is paid back over one period, not over minutes. */
	if (period->budget_ns <= 0)
		period->budget_ns = 1;
	return had_budget ? LL_WAS_IDLE : LL_WAS_HONOURED;
}

/*
 * What is left of a process's period, @left, where it has another reservation from now on, since it executes something: no more than that one has,
 * and no later. Otherwise who executes itself again and again would have a whole budget each time.
 */
static inline struct ll_period ll_take_over(const struct ll_period *left, u64 runtime_ns, u64 period_ns, u64 now)
{
	struct ll_period next = *left;
	u64 begins_ns = now < left->start_ns ? left->start_ns : now;

	if (now >= left->deadline_ns)
		return (struct ll_period){};
	if (next.budget_ns > (s64)runtime_ns)
		next.budget_ns = (s64)runtime_ns;
	if (next.deadline_ns > begins_ns + period_ns)
		next.deadline_ns = begins_ns + period_ns;
	return next;
}

/* What @runtime_ns in every @period_ns takes of one CPU. */
static inline u32 ll_bandwidth_ppm(u64 runtime_ns, u64 period_ns)
{
	return period_ns ? (u32)(runtime_ns * LL_WHOLE_PPM / period_ns) : LL_WHOLE_PPM;
}

/* What reservations take of a CPU: lately, and as their specifications expect (section 6.1). */
struct ll_load {
	u32 samples_ppm[LL_LOAD_SAMPLES];	/* of the last seconds */
	u32 next;	/* which of them is the oldest */
	u32 recent_ppm;	/* R_load: their mean */
	u32 expected_ppm;	/* S_load: what was admitted is added to it, and it decays to R_load */
};

/*
 * A second is over, in which they took @sample_ppm. S_load comes an eighth of the way to R_load each time, so that it does not fall faster than
 * R_load, the mean of a window, can rise by what was admitted: or twice as much would be admitted as there is room for.
 */
static inline void ll_load_second(struct ll_load *load, u32 sample_ppm)
{
	u32 sum = 0, i;

	load->samples_ppm[load->next & (LL_LOAD_SAMPLES - 1)] = sample_ppm;
	load->next++;
	for (i = 0; i < LL_LOAD_SAMPLES; i++)
		sum += load->samples_ppm[i];
	load->recent_ppm = sum / LL_LOAD_SAMPLES;
	load->expected_ppm = load->expected_ppm - load->expected_ppm / 8 + load->recent_ppm / 8;
}

/*
 * A process that took @window_us of these seconds does so no more: it has ended, or lost its reservation. Without this the mean of four seconds
 * would refuse who comes in its place, or have others lose theirs, too.
 */
static inline void ll_load_forget(struct ll_load *load, const u32 *window_us)
{
	u32 sum = 0, i;

	for (i = 0; i < LL_LOAD_SAMPLES; i++) {
		load->samples_ppm[i] -= window_us[i] < load->samples_ppm[i] ? window_us[i] : load->samples_ppm[i];
		sum += load->samples_ppm[i];
	}
	load->recent_ppm = sum / LL_LOAD_SAMPLES;
}

/* What was taken in the last whole second. */
static inline u32 ll_last_second(const struct ll_load *load)
{
	return load->samples_ppm[(load->next - 1) & (LL_LOAD_SAMPLES - 1)];
}

/* max(R_load, S_load), which admission goes by; and, as R_load comes late, the last second too. */
static inline u32 ll_load_of(const struct ll_load *load)
{
	u32 last_ppm = ll_last_second(load);
	u32 most_ppm = load->recent_ppm > load->expected_ppm ? load->recent_ppm : load->expected_ppm;

	return last_ppm > most_ppm ? last_ppm : most_ppm;
}

/*
 * What has been taken of the second that is not over yet, @ran_ns in @elapsed_ns. Short-lived processes, as a make has them, are at the beginning of
 * their first period all the time: each uses its C at once, and what was expected of it is gone with it. By the figures of whole seconds they would
 * be admitted one after another, and have all of the CPU.
 */
static inline u32 ll_running_ppm(u64 ran_ns, u64 elapsed_ns)
{
	u64 of_us = elapsed_ns / 1000;

	if (of_us < LL_SECOND_TELLS_US)
		of_us = LL_SECOND_TELLS_US;
	return (u32)(ran_ns * (LL_WHOLE_PPM / 1000) / of_us);
}

/* Do reservations take more than R_max, @max_ppm, of a CPU: in the second that is under way (ll_running_ppm()), or in the last one? */
static inline int ll_is_overloaded(const struct ll_load *load, u32 running_ppm, u32 max_ppm)
{
	return running_ppm > max_ppm || ll_last_second(load) > max_ppm;
}

/*
 * Does one of @runtime_ns in every @period_ns take more all of a sudden? In the second that is under way it used @second_us, in each of the last
 * four at least @least_us: that, a quarter more, and LL_SURGE_NS are no surge, nor is a budget, where periods are so long that a second has one more
 * or less, or where it is less than that.
 */
static inline int ll_surges(u32 second_us, u32 least_us, u64 runtime_ns, u64 period_ns)
{
	u64 slack_ns = period_ns >= LL_SURGE_PERIOD_NS || runtime_ns < LL_SURGE_NS ? runtime_ns : LL_SURGE_NS;

	return second_us > least_us + least_us / 4 + slack_ns / 1000;
}

/*
 * Would there be no room for one of @bandwidth_ppm under @most_ppm by what all use (R_load) but for the @use_ppm that it has used itself? Then it
 * was admitted because it, or others, used little.
 */
static inline int ll_lacks_room(const struct ll_load *load, u32 bandwidth_ppm, u32 use_ppm, u32 most_ppm)
{
	u32 others_ppm = load->recent_ppm > use_ppm ? load->recent_ppm - use_ppm : 0;

	return others_ppm + bandwidth_ppm >= most_ppm;
}

/* May one of @bandwidth_ppm more be admitted under the threshold R_hi, @high_ppm? */
static inline int ll_admits(const struct ll_load *load, u32 bandwidth_ppm, u32 high_ppm)
{
	return ll_load_of(load) + bandwidth_ppm < high_ppm;
}

/*
 * What the HuC classes take without a reservation, by @huc of the last four seconds and of the last one, and by @running_ppm of the one that is under
 * way: so much of a CPU is no room for who is not of them. R_load says nothing of it: a film that holds no reservation would be left with what a
 * crowd of small ones leaves.
 */
static inline u32 ll_huc_room(const struct ll_load *huc, u32 running_ppm)
{
	u32 taken_ppm = huc->recent_ppm;

	if (ll_last_second(huc) > taken_ppm)
		taken_ppm = ll_last_second(huc);
	if (running_ppm > taken_ppm)
		taken_ppm = running_ppm;
	return taken_ppm < LL_HUC_ROOM_PPM ? taken_ppm : LL_HUC_ROOM_PPM;
}

/*
 * What is in S_load for one of @bandwidth_ppm that was admitted @seconds ago and has lately used @use_ppm: as much is taken out again when its
 * process ends.
 */
static inline u32 ll_still_expected(u32 bandwidth_ppm, u64 seconds, u32 use_ppm)
{
	u32 i;

	for (i = 0; i < LL_FORGOTTEN_S && i < seconds; i++)
		bandwidth_ppm -= bandwidth_ppm / 8;
	if (i == LL_FORGOTTEN_S)
		bandwidth_ppm = 0;
	return bandwidth_ppm > use_ppm ? bandwidth_ppm : use_ppm;
}

#endif /* LIMELIGHT_MATH_RESERVE_H */
