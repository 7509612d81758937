// SPDX-License-Identifier: GPL-2.0-only
/*
 * person: stands in for the person at the desk. Presses keys and moves the pointer by XTEST, sees the screen change by DAMAGE,
 * and writes how long each took, in virtual time.
 *
 *   person type  --title T --count N      key sent -> first change of the window; with --seconds S no key after S s
 *   person watch --title T --seconds S    when each frame of the window was drawn
 *   person drag  --title T --seconds S    pointer moved -> the window is where it belongs; with --circle round and round
 *   person start --title T --count N      Enter sent to window T -> first frame of a new window
 *   person menu --count N                 click on the last entry of the window manager's menu -> first frame of a new window
 *   person wander --title T --seconds S   moves the pointer over the window and types, measures nothing
 *
 * A hand and an eye are no processes: this program runs above every ordinary task, so that its own waiting is not measured.
 */
#define _GNU_SOURCE
#include "person.h"

#include <X11/keysym.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* How long a person waits before giving a reaction up for lost; counted as that long. */
#define GIVE_UP_NS (5 * NS_PER_S)
#define FIND_WINDOW_NS (60 * NS_PER_S)
/* A circle of this many motions, 2 s at 60 Hz, and of this radius in pixels: no two places of it are the same. */
#define CIRCLE_MOTIONS 120
#define CIRCLE_PX 100

struct options {
	const char *action, *title, *out;
	uint64_t count, seconds, seed;
	uint64_t interval_ns; /* between two keys or motions, on the average */
	bool is_timed;	      /* --seconds was given */
	bool is_circle;
	bool is_menu;
	uint64_t around_ns; /* drag: before it, the window found, and after it, nothing is done for so long */
};

struct record {
	struct samples latency;   /* ns */
	struct samples sent;      /* type: when each key was pressed, CLOCK_MONOTONIC */
	struct samples intervals; /* watch: ns between frames; the first from the start of watching */
	uint64_t lost;
};

static void usage(void)
{
	die_usage("usage: person type|watch|drag|start|menu|wander --title T --out FILE [--count N] [--seconds S]\n"
		  "              [--interval-us N] [--seed N] [--circle] [--around MS]");
}

static struct options parse(int argc, char **argv)
{
	struct options options = { .count = 100, .seconds = 10, .seed = 1 };

	if (argc < 2)
		usage();
	options.action = argv[1];
	options.is_menu = !strcmp(options.action, "menu");
	for (int i = 2; i < argc; i += 2) {
		const char *value = i + 1 < argc ? argv[i + 1] : NULL;

		if (!strcmp(argv[i], "--circle")) {
			options.is_circle = true;
			i--; /* it has no value */
			continue;
		}
		if (!value)
			usage();
		if (!strcmp(argv[i], "--title"))
			options.title = value;
		else if (!strcmp(argv[i], "--out"))
			options.out = value;
		else if (!strcmp(argv[i], "--count"))
			options.count = parse_number("--count", value, 1, 100000);
		else if (!strcmp(argv[i], "--around"))
			options.around_ns = parse_number("--around", value, 0, 3600000) * NS_PER_MS;
		else if (!strcmp(argv[i], "--seconds"))
			options.seconds = parse_number("--seconds", value, 1, 3600), options.is_timed = true;
		else if (!strcmp(argv[i], "--interval-us"))
			options.interval_ns = parse_number("--interval-us", value, 1000, 60000000) * NS_PER_US;
		else if (!strcmp(argv[i], "--seed"))
			options.seed = parse_number("--seed", value, 0, UINT64_MAX);
		else
			usage();
	}
	if ((!options.title && !options.is_menu) || !options.out)
		usage();
	return options;
}

/* Half to one and a half times the interval: a regular rhythm could fall in step with a timer. */
static uint64_t pause_ns(struct random_state *random, uint64_t interval_ns)
{
	return random_between(random, interval_ns / 2, interval_ns * 3 / 2);
}

/* Waits for the first change of what is watched after `sent_ns`. */
static void see_change(struct eye *eye, struct record *record, uint64_t sent_ns)
{
	XEvent event;

	while (eye_next(eye, &event, sent_ns + GIVE_UP_NS)) {
		if (event.type == eye->damage_event + XDamageNotify) {
			samples_add(&record->latency, now_ns() - sent_ns);
			return;
		}
	}
	record->lost++;
	samples_add(&record->latency, GIVE_UP_NS);
}

static void type(struct eye *eye, const struct options *options, struct record *record)
{
	/* 8 characters a second: the rate of the paper's editor runs. */
	const uint64_t interval_ns = options->interval_ns ? options->interval_ns : 125 * NS_PER_MS;
	const Window window = eye_find(eye, options->title, FIND_WINDOW_NS);
	struct random_state random;

	random_seed(&random, options->seed);
	eye_focus(eye, window);
	sleep_until_ns(now_ns() + NS_PER_S);
	eye_watch(eye, window);
	const uint64_t end_ns = options->is_timed ? now_ns() + options->seconds * NS_PER_S : UINT64_MAX;
	for (uint64_t i = 0; i < options->count && now_ns() < end_ns; i++) {
		sleep_until_ns(now_ns() + pause_ns(&random, interval_ns));
		eye_drain(eye);
		const uint64_t sent_ns = eye_press(eye, XK_a + random_next(&random) % 26);

		samples_add(&record->sent, sent_ns);
		see_change(eye, record, sent_ns);
	}
}

static void watch(struct eye *eye, const struct options *options, struct record *record)
{
	const Window window = eye_find(eye, options->title, FIND_WINDOW_NS);
	uint64_t last_ns, end_ns;
	XEvent event;

	eye_watch(eye, window);
	eye_drain(eye);
	last_ns = now_ns();
	end_ns = last_ns + options->seconds * NS_PER_S;
	while (eye_next(eye, &event, end_ns)) {
		if (event.type != eye->damage_event + XDamageNotify)
			continue;
		/* A frame of a window that another one covers in part comes as several rectangles. */
		if (((const XDamageNotifyEvent *)&event)->more)
			continue;
		samples_add(&record->intervals, now_ns() - last_ns);
		last_ns = now_ns();
	}
}

struct drag {
	int start_x, start_y;     /* of the frame before the drag */
	int pointer_x, pointer_y; /* where the button went down */
	bool is_circle;
	uint64_t sent_ns[64];
	int wanted_x[64], wanted_y[64]; /* where the frame belongs after motion i % 64 */
	uint64_t sent, done;
};

/* The frame is at `x`, `y` now: every motion up to the one that asked for it has been answered. */
static void see_moved(struct drag *drag, struct record *record, int x, int y)
{
	const uint64_t now = now_ns();

	for (uint64_t i = drag->done; i < drag->sent; i++) {
		if (drag->wanted_x[i % 64] != x || drag->wanted_y[i % 64] != y)
			continue;
		for (; drag->done <= i; drag->done++)
			samples_add(&record->latency, now - drag->sent_ns[drag->done % 64]);
		return;
	}
}

/* By how much motion `number` is off the start, never twice the same within 64 motions: a circle, or back and forth over 200 pixels. */
static void place(const struct drag *drag, uint64_t number, int *x, int *y)
{
	const int phase = (int)(number % 400);
	const double angle = 2 * M_PI * (double)(number % CIRCLE_MOTIONS) / CIRCLE_MOTIONS;

	*x = drag->is_circle ? (int)lround(CIRCLE_PX * sin(angle)) : (phase < 200 ? phase : 400 - phase) + 1;
	*y = drag->is_circle ? (int)lround(CIRCLE_PX * (1 - cos(angle))) : 0;
}

static void send_motion(struct eye *eye, struct drag *drag)
{
	int x, y;

	place(drag, drag->sent + 1, &x, &y);
	drag->wanted_x[drag->sent % 64] = drag->start_x + x;
	drag->wanted_y[drag->sent % 64] = drag->start_y + y;
	drag->sent_ns[drag->sent % 64] = eye_move(eye, drag->pointer_x + x, drag->pointer_y + y);
	drag->sent++;
}

/* Takes the frame by its title, and waits until the window manager drags. */
static void grab(struct eye *eye, struct drag *drag, Window frame)
{
	XWindowAttributes at;

	XRaiseWindow(eye->display, frame);
	XSelectInput(eye->display, frame, StructureNotifyMask);
	XGetWindowAttributes(eye->display, frame, &at);
	drag->start_x = at.x;
	drag->start_y = at.y;
	drag->pointer_x = at.x + at.width / 2;
	drag->pointer_y = at.y + 8;
	eye_move(eye, drag->pointer_x, drag->pointer_y);
	sleep_until_ns(now_ns() + 100 * NS_PER_MS);
	eye_button(eye, 1, true);
	/* A window manager starts to drag only beyond a threshold: cross it before measuring. */
	eye_move(eye, drag->pointer_x + 20, drag->pointer_y);
	sleep_until_ns(now_ns() + 500 * NS_PER_MS);
	eye_drain(eye);
}

static void drag_window(struct eye *eye, const struct options *options, struct record *record)
{
	/* 60 motions a second: a mouse's worth on a 60 Hz display. */
	const uint64_t interval_ns = options->interval_ns ? options->interval_ns : 16667 * NS_PER_US;
	const Window frame = eye_frame(eye, eye_find(eye, options->title, FIND_WINDOW_NS));
	struct drag drag = { .is_circle = options->is_circle };
	XEvent event;

	/* To start, to find it, and to write down in the end takes some 40 ms above every ordinary task each: who watches a film meanwhile sees that. */
	sleep_until_ns(now_ns() + options->around_ns);
	grab(eye, &drag, frame);
	const uint64_t end_ns = now_ns() + options->seconds * NS_PER_S;
	for (uint64_t next_ns = now_ns(); next_ns < end_ns; next_ns += interval_ns) {
		send_motion(eye, &drag);
		while (eye_next(eye, &event, next_ns + interval_ns))
			if (event.type == ConfigureNotify && event.xconfigure.window == frame)
				see_moved(&drag, record, event.xconfigure.x, event.xconfigure.y);
		if (drag.sent - drag.done >= 63) { /* a second behind: the oldest is lost */
			samples_add(&record->latency, now_ns() - drag.sent_ns[drag.done % 64]);
			record->lost++;
			drag.done++;
		}
	}
	/* The window manager still has the pointer: let it end the drag before the window may go away. */
	eye_button(eye, 1, false);
	XSync(eye->display, False);
	sleep_until_ns(now_ns() + 500 * NS_PER_MS + options->around_ns);
}

/* Waits for a window that was not there to show its first frame; returns it, or None. */
static Window see_new_window(struct eye *eye, struct record *record, uint64_t sent_ns)
{
	Window created = None;
	XEvent event;

	while (eye_next(eye, &event, sent_ns + 6 * GIVE_UP_NS)) {
		/* The first window made under the root that draws is the program's: frames have no drawing before it. */
		if (event.type == CreateNotify && !event.xcreatewindow.override_redirect &&
		    event.xcreatewindow.width > 100 && created == None) {
			created = event.xcreatewindow.window;
			XDamageCreate(eye->display, created, XDamageReportRawRectangles);
			XFlush(eye->display);
		} else if (event.type == eye->damage_event + XDamageNotify) {
			samples_add(&record->latency, now_ns() - sent_ns);
			return created;
		}
	}
	record->lost++;
	samples_add(&record->latency, 6 * GIVE_UP_NS);
	return None;
}

/*
 * Opens the window manager's menu by a click on the root window, in the corner where no window is, and puts the pointer on the menu's last entry,
 * which is all of it or, below a title, its second row; false where no menu came.
 */
static bool open_menu(struct eye *eye)
{
	const int corner_x = DisplayWidth(eye->display, DefaultScreen(eye->display)) - 200;
	const int corner_y = DisplayHeight(eye->display, DefaultScreen(eye->display)) - 150;
	XWindowAttributes at;
	uint64_t sent_ns;
	XEvent event;

	sent_ns = eye_move(eye, corner_x, corner_y);
	eye_button(eye, 3, true);
	eye_button(eye, 3, false);
	do {
		if (!eye_next(eye, &event, sent_ns + GIVE_UP_NS))
			return false;
	} while (event.type != MapNotify);
	/* The hand takes as long to get there, and the menu to be drawn. */
	sleep_until_ns(now_ns() + 300 * NS_PER_MS);
	if (!XGetWindowAttributes(eye->display, event.xmap.window, &at))
		return false;
	eye_move(eye, at.x + at.width / 2, at.y + at.height * 3 / 4);
	sleep_until_ns(now_ns() + 300 * NS_PER_MS);
	eye_drain(eye);
	return true;
}

/* Clicks on what is under the pointer. Returns when the button went down. */
static uint64_t click(struct eye *eye)
{
	const uint64_t sent_ns = eye_button(eye, 1, true);

	eye_button(eye, 1, false);
	return sent_ns;
}

static void start_programs(struct eye *eye, const struct options *options, struct record *record)
{
	const uint64_t interval_ns = options->interval_ns ? options->interval_ns : 1000 * NS_PER_MS;
	const Window terminal = options->is_menu ? None : eye_find(eye, options->title, FIND_WINDOW_NS);
	struct random_state random;

	random_seed(&random, options->seed);
	XSelectInput(eye->display, eye->root, SubstructureNotifyMask);
	for (uint64_t i = 0; i < options->count; i++) {
		if (!options->is_menu)
			eye_focus(eye, terminal);
		sleep_until_ns(now_ns() + pause_ns(&random, interval_ns));
		eye_drain(eye);
		if (options->is_menu && !open_menu(eye))
			die_usage("person: the window manager showed no menu within 5 s of a click on the root window");
		const Window made = see_new_window(eye, record, options->is_menu ? click(eye) : eye_press(eye, XK_Return));
		sleep_until_ns(now_ns() + 300 * NS_PER_MS);
		if (made)
			XKillClient(eye->display, made);
		XSync(eye->display, False);
	}
}

static void wander(struct eye *eye, const struct options *options)
{
	const Window window = eye_find(eye, options->title, FIND_WINDOW_NS);
	const uint64_t interval_ns = options->interval_ns ? options->interval_ns : 16667 * NS_PER_US;
	const uint64_t end_ns = now_ns() + options->seconds * NS_PER_S;
	struct random_state random;
	Window child;
	int x = 0, y = 0;

	random_seed(&random, options->seed);
	eye_focus(eye, window);
	XTranslateCoordinates(eye->display, window, eye->root, 0, 0, &x, &y, &child);
	for (uint64_t i = 0; now_ns() < end_ns; i++) {
		eye_move(eye, x + 20 + (int)(i * 3 % 100), y + 20 + (int)(i % 50));
		if (i % 8 == 0)
			eye_press(eye, XK_a + random_next(&random) % 26);
		eye_drain(eye);
		sleep_until_ns(now_ns() + pause_ns(&random, interval_ns));
	}
}

int main(int argc, char **argv)
{
	const struct options options = parse(argc, argv);
	struct record record = { 0 };
	struct eye eye = { 0 };
	FILE *out;

	become_instrument(true);
	eye_open(&eye);
	if (!strcmp(options.action, "type"))
		type(&eye, &options, &record);
	else if (!strcmp(options.action, "watch"))
		watch(&eye, &options, &record);
	else if (!strcmp(options.action, "drag"))
		drag_window(&eye, &options, &record);
	else if (!strcmp(options.action, "start") || options.is_menu)
		start_programs(&eye, &options, &record);
	else if (!strcmp(options.action, "wander"))
		wander(&eye, &options);
	else
		usage();
	out = fopen(options.out, "w");
	if (!out)
		die_errno("cannot write %s", options.out);
	fprintf(out, "{\"source\": \"virtual-time stamps of the workload (XTEST, DAMAGE)\", \"lost\": %" PRIu64 ", ", record.lost);
	samples_write(out, "latency", &record.latency);
	fputs(", ", out);
	samples_write(out, "intervals", &record.intervals);
	fputs(", ", out);
	samples_write(out, "sent", &record.sent);
	fputs("}\n", out);
	if (fclose(out))
		die_errno("cannot write %s", options.out);
	return 0;
}
