// SPDX-License-Identifier: MIT
/*
 * A GLib program that keeps its main loop and hands libcoop to it as one more source: coop_get_fd() is readable when
 * coop_dispatch() has something to run. A GTK program does the same; Qt (QSocketNotifier) and libuv (uv_poll_t) go alike.
 *
 *   cc glib.c $(pkg-config --cflags --libs coop glib-2.0)
 */
#include <coop.h>
#include <glib.h>

#define TICKS 5
#define TICK_NS 10000000ull

struct ticker {
	GMainLoop *loop;
	struct coop_event timer;
	int ticks;
};

static void tick(struct coop *coop, struct coop_event *event)
{
	struct ticker *ticker = event->user;

	g_print("tick %d, %" G_GUINT64_FORMAT " us late\n", ++ticker->ticks, (coop_now() - event->release) / 1000);
	if (ticker->ticks == TICKS) {
		g_main_loop_quit(ticker->loop);
		return;
	}
	event->release += TICK_NS;
	if (coop_submit(coop, event) < 0)
		g_main_loop_quit(ticker->loop);
}

struct coop_source {
	GSource base;
	struct coop *coop;
};

/* GLib has seen the descriptor readable. No waiting here: GLib waits. */
static gboolean dispatch(GSource *source, GSourceFunc callback, gpointer user)
{
	(void)callback;
	(void)user;
	return coop_dispatch(((struct coop_source *)source)->coop, 0) >= 0 ? G_SOURCE_CONTINUE : G_SOURCE_REMOVE;
}

static GSourceFuncs functions = { .dispatch = dispatch };

static gboolean glib_timeout(gpointer user)
{
	(void)user;
	g_print("GLib's own timeout\n");
	return G_SOURCE_REMOVE;
}

int main(void)
{
	struct ticker ticker = { .loop = g_main_loop_new(NULL, FALSE) };
	struct coop *coop;
	GSource *source;

	if (coop_new(&coop) < 0)
		return 1;
	source = g_source_new(&functions, sizeof(struct coop_source));
	((struct coop_source *)source)->coop = coop;
	g_source_add_unix_fd(source, coop_get_fd(coop), G_IO_IN);
	/*
	 * Releases are for what is late when it waits. With best-effort events, too, GLib would run nothing else at this priority: then it is
	 * G_PRIORITY_LOW.
	 */
	g_source_set_priority(source, G_PRIORITY_HIGH);
	g_source_attach(source, NULL);
	g_timeout_add(25, glib_timeout, NULL);

	ticker.timer = (struct coop_event){ .type = COOP_TIMER, .release = coop_now() + TICK_NS, .callback = tick, .user = &ticker };
	if (coop_submit(coop, &ticker.timer) < 0)
		return 1;
	g_main_loop_run(ticker.loop);

	g_source_destroy(source);
	g_source_unref(source);
	coop_free(coop);
	g_main_loop_unref(ticker.loop);
	return 0;
}
