// SPDX-License-Identifier: MIT
/*
 * The player proper, as the paper's Figure 3 has it, with its names. Frames come in order of importance, each with the data that it takes; each is
 * a best-effort event that decodes it, piece by piece, a timer by which it is dropped where its turn has not come, and a timer that shows it:
 *
 *   recv_video_frame ──► decode (best effort, in order of importance) ──► display (timer, at the frame's time)
 *                   └──► expire (timer): takes the decoding back
 *
 * Nobody estimates how long anything takes. Where the CPU does not do for all frames, the most important ones of each window have been
 * decoded when it is time to show it, and the rest expires; where the network does not, the server drops the rest (protocol.h).
 *
 *   time         ─── window 4 ───┬─── window 5 ───┬─── window 6 ───►        windows are stretches of the film
 *   is shown          4          │        5       │
 *   is decoded        5, (6)     │        6, (7)  │                         what has not been by the bar expires
 *   is received       6          │        7       │
 *
 * User virtual time is the time at which the frame would be shown if the frames of its window were shown in order of importance. It is the
 * paper's count of frames (section 3.1) in a unit that films of different frame rates, and players that began at different times, have in
 * common: of the players of a group, that one decodes which has done the least of the window that is next, however different their films are, and
 * so they show the same part of their frames.
 */
#include "play.h"

#include <stdlib.h>
#include <string.h>

#include "decoder.h"
#include "screen.h"
#include "stream.h"

/* How often the server is told how far the film is. A part of a window's time, and 20 small messages a second cost nothing. */
#define TELL_NS (50 * NS_PER_MS)
/* Three windows are decoded or shown at once: pictures for as much of an ordinary film are made before it begins. */
#define PREPARED_NS NS_PER_S
/* A server that says nothing for so long, when it should, is given up. */
#define PATIENCE_NS (10 * NS_PER_S)

struct frame {
	struct frame_facts facts;
	struct play *play;
	struct coop_event decode_event, expire_event, display_event;
	uint64_t display_ns;		/* its time */
	uint8_t *data;			/* the decoder's once it has begun */
	size_t bytes;
	struct picture *picture;	/* from the beginning of decoding until it is shown */
	struct frame *next, **link;	/* in the list of all */
};

struct play {
	struct play_options options;
	struct coop *coop;
	struct stream *stream;
	bool has_film;
	struct film_facts film;
	struct screen *screen;		/* these two from the first prepare on, which is before all decoding */
	struct decoder *decoder;
	uint64_t start_ns;		/* when the film begins */
	uint64_t heard_ns;		/* when the server was heard last */
	struct coop_event prepare, tell, finish;
	struct frame *frames;
	/* The window that comes in. */
	struct window_facts window;
	uint32_t windows;		/* it and those before */
	uint32_t received[KINDS];	/* of it */
	int64_t importance;		/* of the frame that came last; -1: none has come */
	/* What the decoder holds: the references of this group, up to this one. */
	uint32_t group, reference;
	struct frame *in_work;		/* the frame that it has begun and not done */
	bool has_reference, has_stream_ended, is_well;
	struct figures figures;
};

static void go_wrong(struct play *play, const char *reason, const char *fix)
{
	if (play->is_well)
		complain(reason, fix, "the film %s did not play to its end", play->options.film);
	play->is_well = false;
}

static void end_play(struct play *play)
{
	play->figures.promise = coop_promise();
	(void)coop_stop(play->coop);
}

static void submit(struct play *play, struct coop_event *event)
{
	/* It can fail for want of memory only: these events are none of the library's errors. */
	if (coop_submit(play->coop, event))
		die(STATUS_FAILED, "no memory is left", "free some", "cannot go on");
}

/* Takes a frame off the list. */
static void forget(struct frame *frame)
{
	*frame->link = frame->next;
	if (frame->next)
		frame->next->link = frame->link;
	free(frame->data);
	free(frame);
}

/* It is not shown. */
static void drop(struct frame *frame, enum fate fate)
{
	struct play *play = frame->play;

	play->figures.frames[frame->facts.kind][fate]++;
	if (frame->facts.kind != KIND_B && fate != LATE)
		play->has_reference = false;
	if (frame->picture)
		screen_give_back(play->screen, frame->picture);
	forget(frame);
}

static bool has_what_it_needs(const struct frame *frame)
{
	const struct play *play = frame->play;

	if (frame->facts.kind == KIND_I)
		return true;
	return play->has_reference && frame->facts.group == play->group &&
	       frame->facts.reference == play->reference + (frame->facts.kind == KIND_P ? 1 : 0);
}

/* Hands the frame to the decoder. False: it was dropped. */
static bool begin_decoding(struct frame *frame)
{
	struct play *play = frame->play;

	if (!has_what_it_needs(frame)) {
		drop(frame, REFERENCE_LOST);
		return false;
	}
	frame->picture = screen_take(play->screen);
	if (!frame->picture) {
		drop(frame, NO_PICTURE);
		return false;
	}
	decoder_begin(play->decoder, frame->data, frame->bytes, frame->facts.kind == KIND_I, frame->picture->pixels, frame->picture->stride);
	frame->data = NULL;
	play->in_work = frame;
	return true;
}

/* It is a picture now. */
static void schedule_display(struct frame *frame)
{
	struct play *play = frame->play;
	const uint64_t now = coop_now();

	if (frame->facts.kind != KIND_B) {
		play->has_reference = true;
		play->group = frame->facts.group;
		play->reference = frame->facts.reference;
	}
	if (now > frame->display_ns + play->film.frame_ns) {
		/* The next one may be on the screen already. */
		drop(frame, LATE);
		return;
	}
	/* A release in the past would be the decoder's lateness, not the timer's. */
	frame->display_event.release = now > frame->display_ns ? now : frame->display_ns;
	submit(play, &frame->display_event);
}

/*
 * A frame that has been begun is finished before another one is, whatever the order says: the decoder has one, and what is decoded next may need it.
 * One whose turn comes in the middle of it, being as important, gives that turn to it. It can still expire meanwhile; what is in work cannot.
 */
static void decode_video_frame(struct coop *coop, struct coop_event *event)
{
	struct frame *frame = event->user;
	struct play *play = frame->play;
	const uint64_t cpu_ns = thread_cpu_ns();
	enum decoder_result result;

	if (play->in_work && play->in_work != frame) {
		submit(play, event);
		frame = play->in_work;
		(void)coop_cancel(coop, &frame->decode_event);
	}
	(void)coop_cancel(coop, &frame->expire_event);
	if (!play->in_work && !begin_decoding(frame))
		return;
	result = decoder_step(play->decoder);
	if (result == DECODER_MORE) {
		submit(play, &frame->decode_event);
	} else {
		play->in_work = NULL;
		if (result == DECODER_DAMAGED)
			drop(frame, DAMAGED);
		else
			schedule_display(frame);
	}
	samples_add(&play->figures.cpu_ns[coop_now() < play->start_ns ? PREDECODE : DECODE], thread_cpu_ns() - cpu_ns);
}

static void expire_video_frame(struct coop *coop, struct coop_event *event)
{
	struct frame *frame = event->user;

	(void)coop_cancel(coop, &frame->decode_event);
	drop(frame, EXPIRED);
}

static void display_video_frame(struct coop *coop, struct coop_event *event)
{
	struct frame *frame = event->user;
	struct play *play = frame->play;
	const uint64_t cpu_ns = thread_cpu_ns();

	(void)coop;
	samples_add(&play->figures.shown_ns, frame->facts.shown_ns);
	samples_add(&play->figures.release_ns, event->release);
	samples_add(&play->figures.tardiness_ns, coop_now() - event->release);
	play->figures.kept += coop_promise() == COOP_PROMISE_KEPT;
	play->figures.frames[frame->facts.kind][SHOWN]++;
	screen_show(play->screen, frame->picture, event->release);
	forget(frame);
	samples_add(&play->figures.cpu_ns[DISPLAY], thread_cpu_ns() - cpu_ns);
}

static uint64_t end_of_window_ns(const struct play *play)
{
	return play->windows ? play->window.begin_ns + play->window.duration_ns : 0;
}

/*
 * What can be done without is given up when the showing of its window begins, so that the next window has the time of this one, and no frame
 * is dropped for being the first to be shown. What others need is given up when the window is over: too late to be shown, it still serves them.
 */
static uint64_t release_of_expiry(const struct play *play, const struct frame *frame)
{
	return play->start_ns + (frame->facts.kind == KIND_B ? play->window.begin_ns : end_of_window_ns(play));
}

static uint64_t virtual_time(const struct play *play, const struct frame *frame)
{
	const struct window_facts *window = &play->window;

	return play->start_ns + window->begin_ns + window->duration_ns * frame->facts.importance / window_frames(window);
}

static void recv_video_frame(struct play *play, const struct frame_facts *facts, uint8_t *data, size_t bytes)
{
	struct frame *frame = allocate(sizeof(*frame));

	*frame = (struct frame){ .facts = *facts, .play = play, .data = data, .bytes = bytes, .display_ns = play->start_ns + facts->shown_ns };
	frame->next = play->frames;
	frame->link = &play->frames;
	if (frame->next)
		frame->next->link = &frame->next;
	play->frames = frame;
	frame->decode_event = (struct coop_event){
		.type = COOP_BEST_EFFORT, .user_virtual_time = virtual_time(play, frame), .callback = decode_video_frame, .user = frame,
	};
	frame->expire_event = (struct coop_event){
		.type = COOP_TIMER, .release = release_of_expiry(play, frame), .callback = expire_video_frame, .user = frame,
	};
	frame->display_event = (struct coop_event){ .type = COOP_TIMER, .callback = display_video_frame, .user = frame };
	submit(play, &frame->decode_event);
	submit(play, &frame->expire_event);
}

/* ---- the server's messages; false: what they say cannot be ---- */

/* What has not come of a window when the next one begins was not sent. */
static void close_window(struct play *play)
{
	for (int kind = 0; play->windows && kind < KINDS; kind++) {
		play->figures.frames[kind][NOT_SENT] += play->window.frames[kind] - play->received[kind];
		play->received[kind] = play->window.frames[kind];
	}
}

static bool on_window(void *user, const struct window_facts *window)
{
	struct play *play = user;

	play->heard_ns = coop_now();
	/*
	 * They follow each other: what comes first is decoded first, and a reference is not decoded before the last B frames of the window before.
	 * And with no gap longer than a window: nobody is made to wait for years.
	 */
	if (!play->has_film || window->number != play->windows || window->begin_ns < end_of_window_ns(play) ||
	    window->begin_ns > end_of_window_ns(play) + MOST_WINDOW_S * NS_PER_S)
		return false;
	close_window(play);
	play->window = *window;
	play->windows++;
	play->importance = -1;
	memset(play->received, 0, sizeof(play->received));
	return true;
}

static bool on_frame(void *user, const struct frame_facts *frame, uint8_t *data, size_t bytes)
{
	struct play *play = user;
	const struct window_facts *window = &play->window;

	play->heard_ns = coop_now();
	if (!play->windows || frame->window != window->number || frame->importance <= play->importance ||
	    frame->importance >= window_frames(window) || play->received[frame->kind] == window->frames[frame->kind] ||
	    frame->shown_ns < window->begin_ns || frame->shown_ns > end_of_window_ns(play)) {
		free(data);
		return false;
	}
	play->importance = frame->importance;
	play->received[frame->kind]++;
	recv_video_frame(play, frame, data, bytes);
	return true;
}

/* Every TELL_NS. */
static void tell_position(struct coop *coop, struct coop_event *event)
{
	struct play *play = event->user;
	const uint64_t now = coop_now(), film_ns = now > play->start_ns ? now - play->start_ns : 0;
	/* Until then it need not say anything. */
	const uint64_t silent_ns = play->has_film ? play->start_ns + end_of_window_ns(play) : 0;

	(void)coop;
	if (!play->figures.first_kept_ns && coop_promise() == COOP_PROMISE_KEPT)
		play->figures.first_kept_ns = now;
	if (play->has_stream_ended)
		return;
	if (now > event->release + PATIENCE_NS)
		/* It was this program that was away. */
		play->heard_ns = now;
	if (now > play->heard_ns + PATIENCE_NS && now > silent_ns + PATIENCE_NS) {
		go_wrong(play, "the server said nothing for 10 s", "look after it");
		end_play(play);
		return;
	}
	if (play->has_film)
		stream_tell(play->stream, film_ns);
	event->release = event->release + TELL_NS > now ? event->release + TELL_NS : now;
	submit(play, event);
}

static void on_shown(void *user, uint64_t due_ns, uint64_t shown_ns)
{
	struct play *play = user;

	/* By the server's clock, which has microseconds. */
	samples_add(&play->figures.on_screen_ns, shown_ns > due_ns ? shown_ns - due_ns : 0);
}

static void on_gone(void *user, const char *reason)
{
	struct play *play = user;

	if (reason)
		go_wrong(play, reason, "look after the X server, or play with --display none");
	end_play(play);
}

static void finish(struct coop *coop, struct coop_event *event)
{
	(void)coop;
	end_play(event->user);
}

/* Has it end then, if not earlier. */
static void finish_at(struct play *play, uint64_t when_ns)
{
	if (coop_cancel(play->coop, &play->finish) == 0 && play->finish.release < when_ns)
		when_ns = play->finish.release;
	play->finish.release = when_ns;
	submit(play, &play->finish);
}

/*
 * Best effort, before all decoding, a piece at a time: the decoder, the window, where the X server has to be waited for, and the pictures that will
 * be needed.
 */
static void prepare(struct coop *coop, struct coop_event *event)
{
	struct play *play = event->user;
	const struct screen_owner owner = { .shown = on_shown, .gone = on_gone, .user = play };
	const uint64_t cpu_ns = thread_cpu_ns();

	if (!play->screen) {
		play->screen = screen_open(coop, play->film.width, play->film.height, play->options.is_blind, play->options.title, &owner);
		play->decoder = decoder_new(play->film.width, play->film.height);
	}
	if (decoder_prepare(play->decoder) || screen_prepare(play->screen, (uint32_t)(PREPARED_NS / play->film.frame_ns) + 1))
		submit(play, event);
	samples_add(&play->figures.cpu_ns[PREPARE], thread_cpu_ns() - cpu_ns);
}

static bool on_film(void *user, const struct film_facts *film)
{
	struct play *play = user;
	const uint64_t length_ns = play->options.length_ns;

	if (play->has_film)
		return false;
	play->has_film = true;
	play->film = *film;
	play->heard_ns = coop_now();
	play->start_ns = play->options.begin_ns ? play->options.begin_ns : play->heard_ns + play->options.preroll_ns;
	play->figures.start_ns = play->start_ns;
	submit(play, &play->prepare);
	if (length_ns != UINT64_MAX)
		finish_at(play, play->start_ns + length_ns);
	return true;
}

static void on_end(void *user, enum stream_end end, const char *reason)
{
	struct play *play = user;

	play->has_stream_ended = true;
	if (end == STREAM_LOST)
		go_wrong(play, reason, "look why the streamer ended, and start it again");
	if (end == STREAM_REFUSED)
		go_wrong(play, reason, "name another film, or start a streamer that serves it");
	if (end == STREAM_LIED)
		go_wrong(play, reason, "play from a streamer of the same version");
	close_window(play);
	/* What has come is played to its end. */
	if (play->has_film && (end == STREAM_COMPLETE || end == STREAM_LOST)) {
		finish_at(play, play->start_ns + end_of_window_ns(play));
		return;
	}
	if (end == STREAM_COMPLETE)
		go_wrong(play, "the server ended it before it began", "play from a streamer of the same version");
	end_play(play);
}

static void on_received(void *user, size_t bytes, uint64_t cpu_ns)
{
	struct play *play = user;

	play->figures.bytes += bytes;
	samples_add(&play->figures.cpu_ns[RECEIVE], cpu_ns);
}

struct play *play_open(struct coop *coop, const struct play_options *options)
{
	struct play *play = allocate(sizeof(*play));
	const struct stream_owner owner = {
		.film = on_film, .window = on_window, .frame = on_frame, .end = on_end, .received = on_received, .user = play,
	};

	play->options = *options;
	play->coop = coop;
	play->is_well = true;
	play->heard_ns = coop_now();
	play->figures.begin_ns = play->heard_ns;
	play->stream = stream_open(coop, connect_to(options->server), options->film, &owner);
	play->prepare = (struct coop_event){ .type = COOP_BEST_EFFORT, .user_virtual_time = 0, .callback = prepare, .user = play };
	play->tell = (struct coop_event){ .type = COOP_TIMER, .release = play->heard_ns, .callback = tell_position, .user = play };
	play->finish = (struct coop_event){ .type = COOP_TIMER, .callback = finish, .user = play };
	submit(play, &play->tell);
	return play;
}

void play_stop(struct play *play)
{
	end_play(play);
}

bool play_is_well(const struct play *play)
{
	return play->is_well;
}

struct figures *play_figures(struct play *play)
{
	return &play->figures;
}

void play_close(struct play *play)
{
	/* First what is being decoded, which still writes into its picture. */
	decoder_free(play->decoder);
	while (play->frames) {
		struct frame *frame = play->frames;

		(void)coop_cancel(play->coop, &frame->decode_event);
		(void)coop_cancel(play->coop, &frame->expire_event);
		(void)coop_cancel(play->coop, &frame->display_event);
		forget(frame);
	}
	(void)coop_cancel(play->coop, &play->prepare);
	(void)coop_cancel(play->coop, &play->tell);
	(void)coop_cancel(play->coop, &play->finish);
	stream_close(play->stream);
	screen_close(play->screen);
	figures_free(&play->figures);
	free(play);
}
