// SPDX-License-Identifier: GPL-2.0-only
/*
 * game: a small OpenGL program that behaves as a role-playing game of the paper's time does: it draws frames as fast as it gets
 * CPU time (adapting its rate to it), and turns with the pointer and the keys. Writes its frame times to --out on SIGTERM.
 *
 * "ready PID WINDOW" is printed after the first frame.
 */
#define _GNU_SOURCE
#include "common.h"

#include <GL/gl.h>
#include <GL/glx.h>
#include <X11/Xlib.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct game {
	Display *display;
	Window window;
	unsigned width, height;
	double angle;
	struct samples frames;
};

static volatile sig_atomic_t stop;

static void on_stop(int signal_number)
{
	(void)signal_number;
	stop = 1;
}

static void open_window(struct game *game)
{
	int wanted[] = { GLX_RGBA, GLX_DOUBLEBUFFER, GLX_DEPTH_SIZE, 16, None };
	XSetWindowAttributes attributes = { .event_mask = KeyPressMask | PointerMotionMask | ExposureMask };
	GLXContext context;
	XVisualInfo *visual;

	game->display = XOpenDisplay(NULL);
	if (!game->display)
		die_usage("cannot reach the X server '%s': is DISPLAY set and the server up?", XDisplayName(NULL));
	visual = glXChooseVisual(game->display, DefaultScreen(game->display), wanted);
	if (!visual)
		die_usage("the X server offers no OpenGL (GLX) with a depth buffer: is libgl1-mesa-dri installed?");
	attributes.colormap = XCreateColormap(game->display, DefaultRootWindow(game->display), visual->visual, AllocNone);
	game->window = XCreateWindow(game->display, DefaultRootWindow(game->display), 60, 60, game->width, game->height, 0,
				     visual->depth, InputOutput, visual->visual, CWColormap | CWEventMask, &attributes);
	XStoreName(game->display, game->window, "game");
	XMapWindow(game->display, game->window);
	context = glXCreateContext(game->display, visual, NULL, True);
	if (!context || !glXMakeCurrent(game->display, game->window, context))
		die_usage("cannot draw with OpenGL in the window");
	XFree(visual);
	glEnable(GL_DEPTH_TEST);
	glViewport(0, 0, (int)game->width, (int)game->height);
}

static void take_events(struct game *game)
{
	XEvent event;

	while (XPending(game->display)) {
		XNextEvent(game->display, &event);
		if (event.type == MotionNotify)
			game->angle += event.xmotion.x % 3;
		else if (event.type == KeyPress)
			game->angle += 10;
	}
}

/* A field of turning triangles: enough vertices and pixels that a frame costs some milliseconds in software. */
static void draw_frame(struct game *game)
{
	glClear(GL_COLOR_BUFFER_BIT | GL_DEPTH_BUFFER_BIT);
	for (int i = 0; i < 60; i++) {
		glLoadIdentity();
		glTranslatef((float)(i % 10) * 0.2f - 0.9f, (float)i / 10.0f * 0.3f - 0.8f, 0.0f);
		glRotatef((float)game->angle + (float)(6 * i), 0.3f, 1.0f, 0.2f);
		glBegin(GL_TRIANGLES);
		for (int corner = 0; corner < 3; corner++) {
			glColor3f(corner == 0, corner == 1, (float)i / 60.0f);
			glVertex3f(corner == 1 ? 0.2f : 0.0f, corner == 2 ? 0.2f : 0.0f, 0.1f);
		}
		glEnd();
	}
	game->angle += 1.0;
	glXSwapBuffers(game->display, game->window);
	glFinish();
}

static struct game parse(int argc, char **argv, const char **out)
{
	struct game game = { .width = 320, .height = 240 };

	for (int i = 1; i < argc; i += 2) {
		const char *value = i + 1 < argc ? argv[i + 1] : "";

		if (!strcmp(argv[i], "--out") && *value)
			*out = value;
		else if (!strcmp(argv[i], "--width"))
			game.width = (unsigned)parse_number("--width", value, 64, 4096);
		else if (!strcmp(argv[i], "--height"))
			game.height = (unsigned)parse_number("--height", value, 64, 4096);
		else
			die_usage("usage: game [--width PX] [--height PX] [--out FILE]");
	}
	return game;
}

int main(int argc, char **argv)
{
	const char *out_path = NULL;
	struct game game = parse(argc, argv, &out_path);
	const struct sigaction action = { .sa_handler = on_stop };
	uint64_t last_ns;

	sigaction(SIGTERM, &action, NULL);
	open_window(&game);
	draw_frame(&game);
	printf("ready %d %lu\n", getpid(), game.window);
	fflush(stdout);
	last_ns = now_ns();
	while (!stop) {
		take_events(&game);
		draw_frame(&game);
		samples_add(&game.frames, now_ns() - last_ns);
		last_ns = now_ns();
	}
	if (out_path) {
		FILE *out = fopen(out_path, "w");

		if (!out)
			die_errno("cannot write %s", out_path);
		fputs("{\"source\": \"virtual-time stamps of the workload\", ", out);
		samples_write(out, "frames", &game.frames);
		fputs("}\n", out);
		if (fclose(out))
			die_errno("cannot write %s", out_path);
	}
	return 0;
}
