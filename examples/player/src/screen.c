// SPDX-License-Identifier: MIT
/*
 * A picture lies in memory that player and X server share (MIT-SHM, by a descriptor), and is a pixmap there. They are made as they are
 * needed, the usual number of them before the first is shown. Showing one is a request of
 * some 80 bytes, by the Present extension, at the frame's time: the player has the exact timer, and the server is asked to show the picture now
 * (PresentOptionAsync) rather than at the next refresh of the screen, which would add up to a period of that to every frame. Under a
 * compositor, which waits for the refresh itself, nothing is torn by it. The server's answers say when the picture was on the screen (CompleteNotify)
 * and when its memory is free again (IdleNotify).
 *
 * The connection and the window are asked for in three events, each of which waits for the X server. Nothing here waits after that: the few requests
 * that can be on their way fit into the socket, and answers come as a descriptor's event.
 */
#include "screen.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xcb/present.h>
#include <xcb/shm.h>
#include <xcb/xcb.h>

#include "common.h"

/* Of one player: three windows of the film as long as windows can be, and what the X server has. */
#define MOST_PICTURES 200
/* Given memory at once: some 20 us, half a millisecond on a slow machine. */
#define PIECE_BYTES 65536
/* Of all pictures of one player. */
#define MOST_BYTES_OF_PICTURES (1ull << 30)

struct screen {
	struct coop *coop;
	struct screen_owner owner;
	uint32_t width, height, count;
	size_t prepared;		/* bytes of the newest picture that have memory */
	struct picture pictures[MOST_PICTURES];
	uint64_t due_ns[MOST_PICTURES];	/* of those that are on their way */
	/* The window; NULL where the screen is blind, and before it is prepared. */
	xcb_connection_t *x;
	const xcb_screen_t *root;
	const char *title;		/* of a window that is still to be opened, or NULL */
	xcb_window_t window;
	xcb_pixmap_t pixmaps[MOST_PICTURES];
	uint8_t depth;
	xcb_atom_t close_atom;
	uint8_t present;		/* the extension's number */
	struct coop_event answers;
	bool has_gone;
};

static __attribute__((noreturn)) void cannot(const char *reason, const char *fix)
{
	die(STATUS_FAILED, reason, fix, "cannot show the film");
}

static void connect_x(struct screen *screen)
{
	int number;
	xcb_screen_iterator_t all;

	screen->x = xcb_connect(NULL, &number);
	if (xcb_connection_has_error(screen->x))
		cannot("there is no X server at DISPLAY", "set DISPLAY, or play with --display none");
	for (all = xcb_setup_roots_iterator(xcb_get_setup(screen->x)); number > 0 && all.rem > 1; number--)
		xcb_screen_next(&all);
	screen->root = all.data;
}

/* Both extensions, and points of four bytes, blue first, as the decoder makes them. */
static void check_x(struct screen *screen)
{
	const xcb_screen_t *root = screen->root;
	const xcb_setup_t *setup = xcb_get_setup(screen->x);
	const xcb_query_extension_reply_t *present = xcb_get_extension_data(screen->x, &xcb_present_id);
	const xcb_query_extension_reply_t *shm = xcb_get_extension_data(screen->x, &xcb_shm_id);
	xcb_present_query_version_reply_t *present_version = NULL;
	xcb_shm_query_version_reply_t *shm_version = NULL;
	bool has_pixels = false, has_pixmaps;

	for (xcb_format_iterator_t format = xcb_setup_pixmap_formats_iterator(setup); format.rem; xcb_format_next(&format))
		has_pixels |= format.data->depth == root->root_depth && format.data->bits_per_pixel == 32;
	if (root->root_depth < 24 || !has_pixels || setup->image_byte_order != XCB_IMAGE_ORDER_LSB_FIRST)
		cannot("the X server's screen has not 24 bits in four bytes, the least significant first", "give the server a screen of depth 24");
	if (!present || !present->present || !shm || !shm->present)
		cannot("the X server has not both extensions Present and MIT-SHM", "start it without switching them off");
	present_version = xcb_present_query_version_reply(screen->x, xcb_present_query_version(screen->x, 1, 0), NULL);
	shm_version = xcb_shm_query_version_reply(screen->x, xcb_shm_query_version(screen->x), NULL);
	has_pixmaps = shm_version && shm_version->shared_pixmaps &&
		      (shm_version->major_version > 1 || (shm_version->major_version == 1 && shm_version->minor_version >= 2));
	if (!present_version || !has_pixmaps)
		cannot("the X server cannot share pixmaps by descriptors", "play on the machine of the X server");
	screen->present = present->major_opcode;
	free(present_version);
	free(shm_version);
}

static xcb_atom_t atom(struct screen *screen, const char *name)
{
	xcb_intern_atom_reply_t *reply = xcb_intern_atom_reply(screen->x, xcb_intern_atom(screen->x, 0, (uint16_t)strlen(name), name), NULL);
	const xcb_atom_t found = reply ? reply->atom : XCB_ATOM_NONE;

	free(reply);
	return found;
}

static void make_window(struct screen *screen, const char *title)
{
	const xcb_screen_t *root = screen->root;
	const xcb_atom_t protocols = atom(screen, "WM_PROTOCOLS");

	screen->close_atom = atom(screen, "WM_DELETE_WINDOW");
	screen->window = xcb_generate_id(screen->x);
	xcb_create_window(screen->x, root->root_depth, screen->window, root->root, 0, 0, (uint16_t)screen->width, (uint16_t)screen->height, 0,
			  XCB_WINDOW_CLASS_INPUT_OUTPUT, root->root_visual, XCB_CW_BACK_PIXEL, &root->black_pixel);
	xcb_change_property(screen->x, XCB_PROP_MODE_REPLACE, screen->window, XCB_ATOM_WM_NAME, XCB_ATOM_STRING, 8, (uint32_t)strlen(title), title);
	xcb_change_property(screen->x, XCB_PROP_MODE_REPLACE, screen->window, protocols, XCB_ATOM_ATOM, 32, 1, &screen->close_atom);
	xcb_present_select_input(screen->x, xcb_generate_id(screen->x), screen->window,
				 XCB_PRESENT_EVENT_MASK_COMPLETE_NOTIFY | XCB_PRESENT_EVENT_MASK_IDLE_NOTIFY);
	xcb_map_window(screen->x, screen->window);
}

/* Has the X server map the memory, too, as a pixmap. The connection closes the descriptor that it is given. */
static void share(struct screen *screen, uint32_t number, int fd)
{
	const xcb_shm_seg_t segment = xcb_generate_id(screen->x);

	screen->pixmaps[number] = xcb_generate_id(screen->x);
	xcb_shm_attach_fd(screen->x, segment, fd, 0);
	xcb_shm_create_pixmap(screen->x, screen->pixmaps[number], screen->window, (uint16_t)screen->width, (uint16_t)screen->height, screen->depth,
			      segment, 0);
	/* The pixmap keeps the memory. */
	xcb_shm_detach(screen->x, segment);
}

/* One more, or NULL. */
static struct picture *add_picture(struct screen *screen)
{
	const size_t stride = screen->width * 4, bytes = stride * screen->height;
	const uint32_t number = screen->count;
	struct picture *picture = &screen->pictures[number];
	void *memory;
	int fd;

	if (number == MOST_PICTURES || (number + 1) * bytes > MOST_BYTES_OF_PICTURES)
		return NULL;
	fd = memfd_create("player", MFD_CLOEXEC);
	memory = fd < 0 || ftruncate(fd, (off_t)bytes) ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED) {
		if (fd >= 0)
			close(fd);
		return NULL;
	}
	*picture = (struct picture){ .pixels = memory, .stride = stride, .number = number };
	screen->count++;
	screen->prepared = 0;
	if (screen->x && !screen->has_gone)
		share(screen, number, fd);
	else
		close(fd);
	return picture;
}

static void hear_present(struct screen *screen, const xcb_ge_generic_event_t *event)
{
	const xcb_present_complete_notify_event_t *complete = (const void *)event;
	const xcb_present_idle_notify_event_t *idle = (const void *)event;

	if (event->event_type == XCB_PRESENT_COMPLETE_NOTIFY && complete->serial < screen->count)
		screen->owner.shown(screen->owner.user, screen->due_ns[complete->serial], complete->ust * NS_PER_US);
	if (event->event_type == XCB_PRESENT_IDLE_NOTIFY && idle->serial < screen->count)
		screen->pictures[idle->serial].is_taken = false;
}

/* The first that makes the screen useless tells its owner. */
static void lose(struct screen *screen, const char *reason)
{
	if (screen->has_gone)
		return;
	screen->has_gone = true;
	screen->owner.gone(screen->owner.user, reason);
}

static void hear(struct screen *screen, const xcb_generic_event_t *event)
{
	const uint8_t type = event->response_type & 0x7f;

	if (type == XCB_GE_GENERIC && ((const xcb_ge_generic_event_t *)event)->extension == screen->present)
		hear_present(screen, (const xcb_ge_generic_event_t *)event);
	else if (type == XCB_CLIENT_MESSAGE && ((const xcb_client_message_event_t *)event)->data.data32[0] == screen->close_atom)
		lose(screen, NULL);
	else if (type == 0)
		lose(screen, "the X server refused a request");
}

/* All that has come: what the library has read, as it does where it sends, too, is not seen at the descriptor any more. */
static void hear_all(struct screen *screen)
{
	xcb_generic_event_t *event;

	while ((event = xcb_poll_for_event(screen->x))) {
		hear(screen, event);
		free(event);
	}
	if (xcb_connection_has_error(screen->x))
		lose(screen, "the X server closed the connection");
}

static void on_answers(struct coop *coop, struct coop_event *ready)
{
	struct screen *screen = ready->user;

	hear_all(screen);
	if (!screen->has_gone)
		(void)coop_submit(coop, ready);
}

/* A piece of it. */
static void open_window(struct screen *screen)
{
	if (!screen->x) {
		connect_x(screen);
		return;
	}
	if (!screen->present) {
		check_x(screen);
		return;
	}
	make_window(screen, screen->title);
	screen->title = NULL;
	screen->depth = screen->root->root_depth;
	xcb_flush(screen->x);
	screen->answers = (struct coop_event){
		.type = COOP_DESCRIPTOR, .fd = xcb_get_file_descriptor(screen->x), .events = POLLIN, .callback = on_answers, .user = screen,
	};
	if (coop_submit(screen->coop, &screen->answers))
		cannot("the system has no room for one more descriptor", "allow more of them");
}

struct screen *screen_open(struct coop *coop, uint32_t width, uint32_t height, bool is_blind, const char *title, const struct screen_owner *owner)
{
	struct screen *screen = allocate(sizeof(*screen));

	screen->coop = coop;
	screen->owner = *owner;
	screen->width = width;
	screen->height = height;
	screen->title = is_blind ? NULL : title;
	return screen;
}

void screen_close(struct screen *screen)
{
	if (!screen)
		return;
	if (screen->x) {
		(void)coop_cancel(screen->coop, &screen->answers);
		xcb_disconnect(screen->x);
	}
	for (uint32_t i = 0; i < screen->count; i++)
		munmap(screen->pictures[i].pixels, screen->pictures[i].stride * screen->height);
	free(screen);
}

bool screen_prepare(struct screen *screen, uint32_t count)
{
	const struct picture *newest = screen->count ? &screen->pictures[screen->count - 1] : NULL;
	const size_t bytes = (size_t)screen->width * 4 * screen->height, left = bytes - screen->prepared;

	if (screen->title) {
		open_window(screen);
		return true;
	}
	if (!newest || !left)
		return screen->count < count && add_picture(screen);
	memset(newest->pixels + screen->prepared, 0, left < PIECE_BYTES ? left : PIECE_BYTES);
	screen->prepared += left < PIECE_BYTES ? left : PIECE_BYTES;
	return true;
}

struct picture *screen_take(struct screen *screen)
{
	struct picture *picture = NULL;

	for (uint32_t i = 0; i < screen->count && !picture; i++)
		if (!screen->pictures[i].is_taken)
			picture = &screen->pictures[i];
	if (!picture)
		picture = add_picture(screen);
	if (picture)
		picture->is_taken = true;
	return picture;
}

void screen_give_back(struct screen *screen, struct picture *picture)
{
	(void)screen;
	picture->is_taken = false;
}

void screen_show(struct screen *screen, struct picture *picture, uint64_t due_ns)
{
	const uint32_t number = picture->number;

	if (!screen->x || screen->has_gone) {
		screen_give_back(screen, picture);
		return;
	}
	screen->due_ns[number] = due_ns;
	xcb_present_pixmap(screen->x, screen->window, screen->pixmaps[number], number, XCB_NONE, XCB_NONE, 0, 0, XCB_NONE, XCB_NONE, XCB_NONE,
			   XCB_PRESENT_OPTION_ASYNC, 0, 0, 0, 0, NULL);
	xcb_flush(screen->x);
	hear_all(screen);
}
