/* SPDX-License-Identifier: GPL-2.0-only */
/* The X side of `person`: finding windows, pressing keys, seeing changes. */
#ifndef LIMELIGHT_WORKLOADS_PERSON_H
#define LIMELIGHT_WORKLOADS_PERSON_H

#include "common.h"

#include <X11/Xlib.h>
#include <X11/extensions/Xdamage.h>

struct eye {
	Display *display;
	Window root;
	int damage_event; /* the event number of DamageNotify */
};

/* Connects to the display, checks for XTEST and DAMAGE; dies with what is missing. */
void eye_open(struct eye *eye);

/* The client window whose WM_NAME is `title`; waits up to `timeout_ns` for it to be visible, then dies. */
Window eye_find(struct eye *eye, const char *title, uint64_t timeout_ns);

/* The child of the root that holds `window` (the window manager's frame), or `window` itself. */
Window eye_frame(struct eye *eye, Window window);

/* Reports of every drawing into `window` and what it holds, one event per request that draws. */
Damage eye_watch(struct eye *eye, Window window);

/* Gives `window` the keyboard. */
void eye_focus(struct eye *eye, Window window);

/* Presses and releases a key by its keysym, and sends it off. Returns when it was sent. */
uint64_t eye_press(struct eye *eye, KeySym key);

/* Moves the pointer on the screen, and sends it off. Returns when it was sent. */
uint64_t eye_move(struct eye *eye, int x, int y);

/* Presses or releases a button, and sends it off. Returns when it was sent. */
uint64_t eye_button(struct eye *eye, unsigned button, bool down);

/* The next event up to the time `until_ns`; false when there was none. */
bool eye_next(struct eye *eye, XEvent *event, uint64_t until_ns);

/* Throws away what has arrived. */
void eye_drain(struct eye *eye);

#endif
