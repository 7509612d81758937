// SPDX-License-Identifier: MIT
/*
 * `standin` stands in for limelight beside real programs: hands out pages to whoever asks, answers every call it sees in good standing,
 * and writes what each thread says, a line a call, until it is killed:
 *
 *   socket PATH                                      first; COOP_SOCKET for the programs
 *   PID TID NAME STATE CALL RELEASE_NS SEEN_NS       RELEASE_NS is `never` where there is none
 *
 * It looks every 0.2 ms: what is shorter than that can be missed.
 */
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "server.h"
#include "testing.h"

#define LOOK_US 200
#define SLOTS 31
/* As many as the server takes. */
#define CLIENTS 512
/* Short, so that programs that stay busy are seen to yield. */
#define SLICE_NS (2 * MS)

static u64 seen[CLIENTS][SLOTS + 1];

static void name_of(pid_t pid, u32 tid, char *name, size_t bytes)
{
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/task/%u/comm", (int)pid, tid);
	file = fopen(path, "r");
	snprintf(name, bytes, "?");
	if (!file)
		return;
	if (fgets(name, (int)bytes, file))
		name[strcspn(name, "\n")] = '\0';
	for (char *blank = name; (blank = strchr(blank, ' '));)
		*blank = '_';
	fclose(file);
}

static void look_at(const struct server_client *client, int slot, u64 *last)
{
	static const char *const states[] = { "runs", "yields", "sleeps" };
	struct coop_slot *cell = &client->page[slot];
	const u64 call = __atomic_load_n(&cell->request.call, __ATOMIC_ACQUIRE), now = coop_now();
	const struct coop_request request = cell->request;
	char name[32], release[32] = "never";

	if (!request.tid || call == *last || request.state == COOP_STATE_RUNS || request.state > COOP_STATE_SLEEPS)
		return;
	*last = call;
	cell->answer.release_ns = COOP_NEVER;
	cell->answer.slice_end_ns = now + SLICE_NS;
	cell->answer.user_virtual_time = COOP_NEVER;
	cell->answer.standing = COOP_STANDING_GOOD;
	__atomic_store_n(&cell->answer.call, call, __ATOMIC_RELEASE);
	name_of(client->pid, request.tid, name, sizeof(name));
	if (request.release_ns != COOP_NEVER)
		snprintf(release, sizeof(release), "%" PRIu64, (uint64_t)request.release_ns);
	printf("%d %u %s %s %" PRIu64 " %s %" PRIu64 "\n", (int)client->pid, request.tid, name, states[request.state], (uint64_t)call, release,
	       (uint64_t)now);
}

int main(void)
{
	struct server *server = server_start(&(struct server_faults){ 0 });

	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("socket %s\n", getenv("COOP_SOCKET"));
	for (;; usleep(LOOK_US)) {
		for (int number = 0; number < server_asked(server) && number < CLIENTS; number++) {
			const struct server_client client = server_client(server, number);

			for (int slot = 1; client.page && slot <= SLOTS; slot++)
				look_at(&client, slot, &seen[number][slot]);
		}
	}
}
