// SPDX-License-Identifier: MIT
/*
 * The smallest program with both kinds of work: a frame is shown every 20 ms, at its time, and in between the next ones are
 * decoded, the most important first, in pieces well below 1 ms (Figure 3 of the paper, without the video).
 *
 *   cc plain.c $(pkg-config --cflags --libs coop)
 */
#include <coop.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define FRAMES 10
#define PIECES 40
#define FRAME_NS 20000000ull

struct frame {
	struct coop_event decode, display;
	int number, pieces_done;
};

static struct frame frames[FRAMES];

/* About 0.1 ms of work. */
static void decode_piece(struct frame *frame)
{
	const uint64_t end = coop_now() + 100000;

	while (coop_now() < end)
		;
	frame->pieces_done++;
}

static void decode(struct coop *coop, struct coop_event *event)
{
	struct frame *frame = event->user;

	decode_piece(frame);
	/* It was submitted as it is before: there is nothing that could fail. */
	if (frame->pieces_done < PIECES)
		(void)coop_submit(coop, event);
}

static void display(struct coop *coop, struct coop_event *event)
{
	struct frame *frame = event->user;
	const uint64_t tardiness_us = (coop_now() - event->release) / 1000;

	/* Not decoded in time: it is dropped, and its decoding with it. Nobody had to estimate anything. */
	if (coop_cancel(coop, &frame->decode) == 0)
		printf("frame %d dropped after %d of %d pieces\n", frame->number, frame->pieces_done, PIECES);
	else
		printf("frame %d shown %" PRIu64 " us late\n", frame->number, tardiness_us);
	if (frame->number == FRAMES - 1)
		coop_stop(coop);
}

int main(void)
{
	struct coop *coop;
	uint64_t start;
	int error = coop_new(&coop);

	if (error) {
		fprintf(stderr, "plain: coop_new: %s\n", strerror(-error));
		return 1;
	}
	start = coop_now();
	for (int i = 0; i < FRAMES; i++) {
		struct frame *frame = &frames[i];

		frame->number = i;
		frame->decode = (struct coop_event){
			.type = COOP_BEST_EFFORT, .user_virtual_time = (uint64_t)i, .callback = decode, .user = frame,
		};
		frame->display = (struct coop_event){
			.type = COOP_TIMER, .release = start + (uint64_t)(i + 1) * FRAME_NS, .callback = display, .user = frame,
		};
		error = coop_submit(coop, &frame->decode);
		if (!error)
			error = coop_submit(coop, &frame->display);
		if (error) {
			fprintf(stderr, "plain: coop_submit: %s\n", strerror(-error));
			return 1;
		}
	}
	error = coop_run(coop);
	if (error) {
		fprintf(stderr, "plain: coop_run: %s\n", strerror(-error));
		return 1;
	}
	error = coop_promise_error();
	if (error)
		printf("no promise (%s): timing as the kernel gives it\n", strerror(-error));
	else
		printf("limelight kept the releases\n");
	coop_free(coop);
	return 0;
}
