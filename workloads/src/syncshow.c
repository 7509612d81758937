// SPDX-License-Identifier: GPL-2.0-only
/*
 * syncshow: how late an X server shows pictures that it was told when to show (X Synchronization extension, as in section 4.3 of the cooperative
 * polling paper: XSyncAwait() on the server's own time before each XPutImage()).
 *
 * The server does not look at this client's requests until the time has come, and then answers the one behind the picture. This program runs above
 * every ordinary task: its own waiting is not measured. Targets are whole milliseconds, because the server's clock is.
 */
#include "common.h"

#include <X11/Xlib.h>
#include <X11/Xutil.h>
#include <X11/extensions/sync.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH 160
#define HEIGHT 90
/* Between two pictures, in ms: about 30 a second, in no step with anything. */
#define APART_LEAST_MS 28
#define APART_MOST_MS 38
/* Shown before any that counts. */
#define UNCOUNTED 30

static XSyncCounter find_server_time(Display *display)
{
	XSyncCounter found = None;
	int count = 0, event, error, major, minor;
	XSyncSystemCounter *counters;

	if (!XSyncQueryExtension(display, &event, &error) || !XSyncInitialize(display, &major, &minor))
		die_usage("the X server has no SYNC extension");
	counters = XSyncListSystemCounters(display, &count);
	for (int i = 0; i < count; i++)
		if (!strcmp(counters[i].name, "SERVERTIME"))
			found = counters[i].counter;
	XSyncFreeSystemCounterList(counters);
	if (found == None)
		die_usage("the X server has no counter of its time");
	return found;
}

static void await_time(Display *display, XSyncCounter server_time, uint64_t when_ms)
{
	XSyncWaitCondition condition = {
		.trigger = { .counter = server_time, .value_type = XSyncAbsolute, .test_type = XSyncPositiveComparison },
	};

	XSyncIntsToValue(&condition.trigger.wait_value, (unsigned int)(when_ms & UINT32_MAX), (int)(when_ms >> 32));
	/* No event for having waited. */
	XSyncIntToValue(&condition.event_threshold, 0);
	XSyncAwait(display, &condition, 1);
}

int main(int argc, char **argv)
{
	struct random_state random;
	struct samples late = { 0 };
	Display *display;
	XImage *picture;

	if (argc != 4)
		die_usage("usage: syncshow DISPLAY PICTURES SEED");
	const uint64_t wanted = parse_number("PICTURES", argv[2], 1, 1000000);
	random_seed(&random, parse_number("SEED", argv[3], 1, UINT32_MAX));
	display = XOpenDisplay(argv[1]);
	if (!display)
		die_usage("no X server at '%s'", argv[1]);
	become_instrument(false);
	const int screen = DefaultScreen(display);
	const Window window = XCreateSimpleWindow(display, RootWindow(display, screen), 0, 0, WIDTH, HEIGHT, 0, 0, 0);
	const XSyncCounter server_time = find_server_time(display);
	char *pixels = calloc(WIDTH * HEIGHT, 4);

	picture = XCreateImage(display, DefaultVisual(display, screen), (unsigned int)DefaultDepth(display, screen), ZPixmap, 0, pixels,
			       WIDTH, HEIGHT, 32, 0);
	if (!pixels || !picture)
		die_errno("no memory for a picture");
	XMapWindow(display, window);
	XSync(display, False);
	uint64_t when_ms = now_ns() / NS_PER_MS;
	for (uint64_t shown = 0; shown < wanted + UNCOUNTED; shown++) {
		when_ms += random_between(&random, APART_LEAST_MS, APART_MOST_MS);
		await_time(display, server_time, when_ms);
		memset(pixels, (int)(shown & 0xff), WIDTH * HEIGHT * 4);
		XPutImage(display, window, DefaultGC(display, screen), picture, 0, 0, 0, 0, WIDTH, HEIGHT);
		XSync(display, False);
		if (shown >= UNCOUNTED)
			samples_add(&late, now_ns() - when_ms * NS_PER_MS);
	}
	become_ordinary();
	printf("{\"source\": \"time told to XSyncAwait to the server's answer to the request behind the picture\", ");
	samples_write(stdout, "late", &late);
	puts("}");
	fflush(stdout);
	/* To end takes ms, with the class of what is shown to the person: not while others are measured. */
	while (getchar() != EOF)
		;
	return 0;
}
