// SPDX-License-Identifier: GPL-2.0-only
/*
 * xclient: a small X program in the place of the person's application.
 *
 * On each key, button or motion event it works --work-us of CPU time, draws a rectangle and flushes; with --period-us it also
 * wakes by itself, works --period-work-us and draws, as an animation does. With --spin it computes whenever it has nothing else
 * to do. On SIGTERM it writes how late its own periodic wake-ups were (virtual-time stamps) to --out.
 *
 * "ready PID WINDOW" is printed after the first frame is on the server.
 */
#define _GNU_SOURCE
#include "common.h"

#include <X11/Xlib.h>
#include <X11/Xutil.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

struct options {
	const char *title, *geometry, *out;
	uint64_t work_ns, period_ns, period_work_ns;
	uint64_t draw_px;
	bool spin;
};

struct client {
	Display *display;
	Window window;
	GC gc;
	unsigned width, height;
	uint64_t frames;
	bool shown; /* the first Expose has been answered */
	struct samples lateness;
};

static volatile sig_atomic_t stop;

static void on_stop(int signal_number)
{
	(void)signal_number;
	stop = 1;
}

static void usage(void)
{
	die_usage("usage: xclient [--title T] [--geometry WxH+X+Y] [--work-us N] [--draw-px N] [--period-us N]\n"
		  "               [--period-work-us N] [--spin] [--out FILE]");
}

static uint64_t microseconds(const char *name, const char *text)
{
	return parse_number(name, text, 0, 10000000) * NS_PER_US;
}

static struct options parse(int argc, char **argv)
{
	struct options options = {
		.title = "xclient", .geometry = "400x300+50+50", .work_ns = 2 * NS_PER_MS, .draw_px = 40,
	};

	for (int i = 1; i < argc; i++) {
		const char *value = i + 1 < argc ? argv[i + 1] : NULL;

		if (!strcmp(argv[i], "--spin")) {
			options.spin = true;
			continue;
		}
		if (!value)
			usage();
		if (!strcmp(argv[i], "--title"))
			options.title = value;
		else if (!strcmp(argv[i], "--geometry"))
			options.geometry = value;
		else if (!strcmp(argv[i], "--out"))
			options.out = value;
		else if (!strcmp(argv[i], "--work-us"))
			options.work_ns = microseconds("--work-us", value);
		else if (!strcmp(argv[i], "--period-us"))
			options.period_ns = microseconds("--period-us", value);
		else if (!strcmp(argv[i], "--period-work-us"))
			options.period_work_ns = microseconds("--period-work-us", value);
		else if (!strcmp(argv[i], "--draw-px"))
			options.draw_px = parse_number("--draw-px", value, 1, 4096);
		else
			usage();
		i++;
	}
	return options;
}

static void draw(struct client *client, uint64_t size_px)
{
	const unsigned size = (unsigned)size_px;
	const unsigned room_x = client->width > size ? client->width - size : 1;
	const unsigned room_y = client->height > size ? client->height - size : 1;

	client->frames++;
	XSetForeground(client->display, client->gc, (client->frames * 0x10305) & 0xffffff);
	XFillRectangle(client->display, client->window, client->gc, (int)(client->frames * 7 % room_x),
		       (int)(client->frames * 3 % room_y), size, size);
	XFlush(client->display);
}

static void open_window(struct client *client, const struct options *options)
{
	XSetWindowAttributes attributes = {
		.background_pixmap = None, /* so that the first change on the screen is the program's own first frame */
		.event_mask = KeyPressMask | ButtonPressMask | PointerMotionMask | ExposureMask | StructureNotifyMask,
	};
	XSizeHints hints = { .flags = USPosition | USSize };
	int x = 0, y = 0;

	client->display = XOpenDisplay(NULL);
	if (!client->display)
		die_usage("cannot reach the X server '%s': is DISPLAY set and the server up?", XDisplayName(NULL));
	if ((XParseGeometry(options->geometry, &x, &y, &client->width, &client->height) & (WidthValue | HeightValue)) !=
	    (WidthValue | HeightValue))
		die_usage("--geometry is '%s': use WxH+X+Y", options->geometry);
	client->window = XCreateWindow(client->display, DefaultRootWindow(client->display), x, y, client->width,
				       client->height, 0, CopyFromParent, InputOutput, CopyFromParent,
				       CWBackPixmap | CWEventMask, &attributes);
	hints.x = x, hints.y = y, hints.width = (int)client->width, hints.height = (int)client->height;
	XSetWMNormalHints(client->display, client->window, &hints);
	XStoreName(client->display, client->window, options->title);
	client->gc = XCreateGC(client->display, client->window, 0, NULL);
	XMapWindow(client->display, client->window);
	XFlush(client->display);
}

/* Handles what the server sent. The first Expose is answered by a full frame. */
static void take_events(struct client *client, const struct options *options)
{
	XEvent event;

	while (XPending(client->display)) {
		XNextEvent(client->display, &event);
		if (event.type == KeyPress || event.type == ButtonPress || event.type == MotionNotify) {
			burn_cpu_ns(options->work_ns);
			draw(client, options->draw_px);
		} else if (event.type == ConfigureNotify) {
			client->width = (unsigned)event.xconfigure.width;
			client->height = (unsigned)event.xconfigure.height;
		} else if (event.type == Expose && event.xexpose.count == 0) {
			XFillRectangle(client->display, client->window, client->gc, 0, 0, client->width, client->height);
			client->frames++;
			XFlush(client->display);
			if (!client->shown) {
				client->shown = true;
				printf("ready %d %lu\n", getpid(), client->window);
				fflush(stdout);
			}
		}
	}
}

static int start_period(const struct options *options, uint64_t *due_ns)
{
	const int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	*due_ns = now_ns() + options->period_ns;
	const struct itimerspec spec = {
		.it_value = { (time_t)(*due_ns / NS_PER_S), (long)(*due_ns % NS_PER_S) },
		.it_interval = { (time_t)(options->period_ns / NS_PER_S), (long)(options->period_ns % NS_PER_S) },
	};

	if (timer < 0 || timerfd_settime(timer, TFD_TIMER_ABSTIME, &spec, NULL))
		die_errno("cannot set a timer");
	return timer;
}

/* The periodic part: how late this wake-up is, then the work of one step of an animation. */
static void take_period(struct client *client, const struct options *options, int timer, uint64_t *due_ns)
{
	uint64_t expirations = 0;

	if (read(timer, &expirations, sizeof(expirations)) != sizeof(expirations))
		return;
	samples_add(&client->lateness, now_ns() - *due_ns);
	*due_ns += expirations * options->period_ns;
	if (!client->shown)
		return; /* nothing can be seen yet */
	burn_cpu_ns(options->period_work_ns);
	draw(client, options->draw_px);
}

static void run(struct client *client, const struct options *options)
{
	struct pollfd sources[2] = {
		{ .fd = ConnectionNumber(client->display), .events = POLLIN },
		{ .fd = -1, .events = POLLIN },
	};
	const struct timespec at_once = { 0 };
	sigset_t none;
	uint64_t due_ns = 0;

	sigemptyset(&none);
	if (options->period_ns)
		sources[1].fd = start_period(options, &due_ns);
	while (!stop) {
		take_events(client, options);
		if (options->spin)
			burn_cpu_ns(NS_PER_MS);
		/* The signal that ends it comes in here only: between a look at `stop` and a wait it would be lost. */
		if (ppoll(sources, 2, options->spin ? &at_once : NULL, &none) < 0 && errno != EINTR)
			die_errno("cannot wait for the X server");
		if (sources[0].revents & (POLLHUP | POLLERR))
			die_usage("the X server went away");
		if (sources[1].revents & POLLIN)
			take_period(client, options, sources[1].fd, &due_ns);
	}
}

int main(int argc, char **argv)
{
	const struct options options = parse(argc, argv);
	const struct sigaction action = { .sa_handler = on_stop };
	struct client client = { 0 };
	sigset_t stopping;

	sigemptyset(&stopping);
	sigaddset(&stopping, SIGTERM);
	sigprocmask(SIG_BLOCK, &stopping, NULL);
	sigaction(SIGTERM, &action, NULL);
	open_window(&client, &options);
	run(&client, &options);
	if (options.out) {
		FILE *out = fopen(options.out, "w");

		if (!out)
			die_errno("cannot write %s", options.out);
		fprintf(out, "{\"source\": \"virtual-time stamps of the workload\", \"frames\": %" PRIu64 ", ", client.frames);
		samples_write(out, "lateness", &client.lateness);
		fputs("}\n", out);
		if (fclose(out))
			die_errno("cannot write %s", options.out);
	}
	return 0;
}
