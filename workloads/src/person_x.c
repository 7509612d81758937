// SPDX-License-Identifier: GPL-2.0-only
#define _GNU_SOURCE
#include "person.h"

#include <X11/Xutil.h>
#include <X11/extensions/XTest.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>

/* Windows come and go while one looks: errors about them mean "not there", not the end. */
static int ignore_error(Display *display, XErrorEvent *event)
{
	(void)display, (void)event;
	return 0;
}

void eye_open(struct eye *eye)
{
	int event = 0, error = 0, major = 0, minor = 0;

	eye->display = XOpenDisplay(NULL);
	if (!eye->display)
		die_usage("cannot reach the X server '%s': is DISPLAY set and the server up?", XDisplayName(NULL));
	XSetErrorHandler(ignore_error);
	eye->root = DefaultRootWindow(eye->display);
	if (!XTestQueryExtension(eye->display, &event, &error, &major, &minor))
		die_usage("the X server has no XTEST extension: keys cannot be pressed");
	if (!XDamageQueryExtension(eye->display, &eye->damage_event, &error))
		die_usage("the X server has no DAMAGE extension: changes cannot be seen");
}

static bool is_titled(struct eye *eye, Window window, const char *title)
{
	XWindowAttributes attributes;
	char *name = NULL;
	bool same;

	if (!XFetchName(eye->display, window, &name) || !name)
		return false;
	same = !strcmp(name, title);
	XFree(name);
	return same && XGetWindowAttributes(eye->display, window, &attributes) && attributes.map_state == IsViewable;
}

/* Clients are children of the root, or of a frame the window manager put there, at most two levels down. */
static Window search(struct eye *eye, Window window, const char *title, int depth)
{
	Window root, parent, *children = NULL, found = None;
	unsigned count = 0;

	if (is_titled(eye, window, title))
		return window;
	if (depth == 0 || !XQueryTree(eye->display, window, &root, &parent, &children, &count))
		return None;
	for (unsigned i = 0; i < count && !found; i++)
		found = search(eye, children[i], title, depth - 1);
	if (children)
		XFree(children);
	return found;
}

Window eye_find(struct eye *eye, const char *title, uint64_t timeout_ns)
{
	const uint64_t end_ns = now_ns() + timeout_ns;

	do {
		const Window found = search(eye, eye->root, title, 3);

		if (found)
			return found;
		sleep_until_ns(now_ns() + 20 * NS_PER_MS);
	} while (now_ns() < end_ns);
	die_usage("no visible window is titled '%s'", title);
}

Window eye_frame(struct eye *eye, Window window)
{
	Window root, parent, *children = NULL;
	unsigned count = 0;

	while (XQueryTree(eye->display, window, &root, &parent, &children, &count)) {
		if (children)
			XFree(children);
		children = NULL;
		if (parent == root || parent == None)
			break;
		window = parent;
	}
	return window;
}

Damage eye_watch(struct eye *eye, Window window)
{
	const Damage damage = XDamageCreate(eye->display, window, XDamageReportRawRectangles);

	XSync(eye->display, False);
	return damage;
}

void eye_focus(struct eye *eye, Window window)
{
	XRaiseWindow(eye->display, eye_frame(eye, window));
	XSetInputFocus(eye->display, window, RevertToPointerRoot, CurrentTime);
	XSync(eye->display, False);
}

uint64_t eye_press(struct eye *eye, KeySym key)
{
	const KeyCode code = XKeysymToKeycode(eye->display, key);

	if (!code)
		die_usage("the X server's keyboard has no key for keysym 0x%lx", key);
	XTestFakeKeyEvent(eye->display, code, True, CurrentTime);
	XTestFakeKeyEvent(eye->display, code, False, CurrentTime);
	const uint64_t sent_ns = now_ns();
	XFlush(eye->display);
	return sent_ns;
}

uint64_t eye_move(struct eye *eye, int x, int y)
{
	XTestFakeMotionEvent(eye->display, -1, x, y, CurrentTime);
	const uint64_t sent_ns = now_ns();
	XFlush(eye->display);
	return sent_ns;
}

uint64_t eye_button(struct eye *eye, unsigned button, bool down)
{
	XTestFakeButtonEvent(eye->display, button, down, CurrentTime);
	const uint64_t sent_ns = now_ns();
	XFlush(eye->display);
	return sent_ns;
}

bool eye_next(struct eye *eye, XEvent *event, uint64_t until_ns)
{
	while (!XPending(eye->display)) {
		struct pollfd source = { .fd = ConnectionNumber(eye->display), .events = POLLIN };
		const uint64_t now = now_ns();

		if (now >= until_ns)
			return false;
		const uint64_t left_ns = until_ns - now;
		const struct timespec left = { (time_t)(left_ns / NS_PER_S), (long)(left_ns % NS_PER_S) };
		if (ppoll(&source, 1, &left, NULL) < 0 && errno != EINTR)
			die_errno("cannot wait for the X server");
		if (source.revents & (POLLHUP | POLLERR))
			die_usage("the X server went away");
	}
	XNextEvent(eye->display, event);
	return true;
}

void eye_drain(struct eye *eye)
{
	XEvent event;

	while (XPending(eye->display))
		XNextEvent(eye->display, &event);
}
