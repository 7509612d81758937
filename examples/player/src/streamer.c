// SPDX-License-Identifier: MIT
/*
 * streamer: serves films to players, each window's frames in order of importance.
 *
 * What is sent next is decided only when what was sent before is on its way: the first frame that has not been sent and is not too late. A
 * player says what is too late (protocol.h), so a slow network costs the least important frames of each window. Where a reference is
 * dropped, what needs it is, too, up to the next I frame.
 *
 * One thread, as the player: events of libcoop, none of which waits but for the disk.
 */
#include <coop.h>
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common.h"
#include "film.h"
#include "memory.h"

const char program_name[] = "streamer";

static const char usage[] =
	"Usage: streamer [OPTION]... FILM...\n"
	"\n"
	"Serves films of H.264 to players. It says `ready PORT` when it listens, and ends on SIGTERM or SIGINT.\n"
	"\n"
	"  -l, --listen HOST:PORT  where; port 0: any that is free (127.0.0.1:7009)\n"
	"  -k, --kbit N            N kbit a second for each player, as on a slow network (0: as fast as it goes)\n"
	"  -L, --loop              begin again after the end, for ever\n"
	"  -s, --silence S         let a player go that has said nothing for S seconds: one that plays says something 20 times a second (30)\n"
	"  -B, --background        go on in the background once it listens, and end there on SIGTERM\n"
	"  -h, --help              this text\n"
	"  -V, --version           the version\n"
	"\n"
	"Exit status: 0 it was ended, 1 it failed, 64 wrong usage.\n";

/* Viewers at once; more are refused. */
#define MOST_VIEWERS 64
/* What the kernel holds for one viewer is decided on already: no more than this. */
#define SOCKET_BYTES 65536
/* What a slow network takes at once: three packets. */
#define SLOW_BYTES 4096
/* What it makes up for: this program's own delays are not the network's. */
#define SLOW_QUEUE_NS (50 * NS_PER_MS)
/* Until it is tried again to let a viewer in for whom there was no descriptor. */
#define NO_ROOM_NS (100 * NS_PER_MS)
/* Of a question. */
#define QUESTION_BYTES 512

static struct {
	const char *listen;
	uint64_t kbit, silence_s;
	bool loops, in_background;
	char **films;
	int film_count;
} option = { .listen = "127.0.0.1:7009", .silence_s = 30 };

/* The window itself is to be told, before its frames. */
#define WINDOW_NOT_TOLD (MOST_FRAMES + 1)

/* What is being sent, or the next to be. */
struct message {
	uint8_t head[HEADER_BYTES + MOST_NAME + 8];
	size_t head_bytes;
	const uint8_t *data;	/* of a frame of the window, or NULL */
	size_t data_bytes;
	size_t sent;		/* of both */
	bool is_last;
};

struct viewer {
	int fd;
	struct coop_event ready;	/* its socket */
	struct coop_event pause;	/* until the slow network takes more */
	uint64_t free_ns;		/* when that is */
	struct coop_event silence;	/* until it has said nothing for too long */
	uint64_t heard_ns;		/* when it said something last */
	struct film *film;
	struct window window;
	uint32_t next;			/* frame of the window, or WINDOW_NOT_TOLD */
	bool has_ended, lost_reference;
	uint64_t now_ns;		/* how far its player is */
	uint64_t begin_ns[WINDOWS_AHEAD]; /* of the windows told last, by number */
	uint8_t question[QUESTION_BYTES];
	size_t question_bytes;
	struct message message;
	struct viewer *next_viewer, **link;
};

static struct viewer *first_viewer;
static int viewers;

static void serve(struct coop *coop, struct coop_event *event);

static void leave(struct coop *coop, struct viewer *viewer)
{
	(void)coop_cancel(coop, &viewer->ready);
	(void)coop_cancel(coop, &viewer->pause);
	(void)coop_cancel(coop, &viewer->silence);
	close(viewer->fd);
	window_free(&viewer->window);
	film_close(viewer->film);
	*viewer->link = viewer->next_viewer;
	if (viewer->next_viewer)
		viewer->next_viewer->link = viewer->link;
	free(viewer);
	viewers--;
}

static void refuse(struct viewer *viewer, const char *why)
{
	viewer->message = (struct message){ .is_last = true };
	viewer->message.head_bytes = write_text(viewer->message.head, MESSAGE_REFUSED, why);
}

static const char *find_film(const char *name)
{
	for (int i = 0; i < option.film_count; i++) {
		const char *slash = strrchr(option.films[i], '/');

		if (!strcmp(slash ? slash + 1 : option.films[i], name))
			return option.films[i];
	}
	return NULL;
}

static void play(struct viewer *viewer, const char *name)
{
	const char *path = find_film(name);
	struct film_facts facts;

	if (viewer->film) {
		refuse(viewer, "a film is being played already");
		return;
	}
	if (!path) {
		refuse(viewer, "no film of this name is served");
		return;
	}
	viewer->film = film_open(path, option.loops);
	if (!viewer->film) {
		refuse(viewer, "the film cannot be read any more");
		return;
	}
	facts = film_facts(viewer->film);
	viewer->message = (struct message){ 0 };
	viewer->message.head_bytes = write_film(viewer->message.head, &facts);
}

/* False: nobody who keeps to the protocol says this. */
static bool answer(struct viewer *viewer, enum message_type type, const uint8_t *body, size_t bytes)
{
	char name[MOST_NAME + 1];

	if (type == MESSAGE_POSITION)
		return read_position(body, bytes, &viewer->now_ns);
	if (type != MESSAGE_PLAY || viewer->message.sent < viewer->message.head_bytes + viewer->message.data_bytes)
		return false;
	if (read_play(body, bytes, name))
		play(viewer, name);
	else
		refuse(viewer, "player and streamer are of different versions");
	return true;
}

/* Reads what the player has said; false where it has gone, or may as well. */
static bool listen_to(struct viewer *viewer)
{
	const ssize_t got = recv(viewer->fd, viewer->question + viewer->question_bytes, sizeof(viewer->question) - viewer->question_bytes, MSG_DONTWAIT);
	enum message_type type;
	size_t bytes;

	if (got <= 0)
		return got < 0 && (errno == EAGAIN || errno == EINTR);
	viewer->heard_ns = coop_now();
	viewer->question_bytes += (size_t)got;
	while (viewer->question_bytes >= HEADER_BYTES) {
		if (!read_header(viewer->question, &type, &bytes) || bytes > sizeof(viewer->question) - HEADER_BYTES)
			return false;
		bytes += HEADER_BYTES;
		if (viewer->question_bytes < bytes)
			return true;
		if (!answer(viewer, type, viewer->question + HEADER_BYTES, bytes - HEADER_BYTES))
			return false;
		viewer->question_bytes -= bytes;
		memmove(viewer->question, viewer->question + bytes, viewer->question_bytes);
	}
	return true;
}

/*
 * Too late for the player, or without what it needs? A B frame is too late when the showing of its window begins, another one, which others
 * need, when that is over.
 */
static bool is_useless(const struct viewer *viewer, const struct frame_facts *frame)
{
	const struct window_facts *window = &viewer->window.facts;

	if (frame->kind != KIND_I && viewer->lost_reference)
		return true;
	return viewer->now_ns > window->begin_ns + (frame->kind == KIND_B ? 0 : window->duration_ns);
}

/* The next window, or the word that there is none. */
static void next_window(struct viewer *viewer)
{
	viewer->next = WINDOW_NOT_TOLD;
	if (film_next(viewer->film, &viewer->window))
		return;
	viewer->has_ended = true;
	viewer->message = (struct message){ .is_last = true };
	viewer->message.head_bytes = write_text(viewer->message.head, MESSAGE_END, "");
}

/* Once of those before it so many have begun that no more than WINDOWS_AHEAD are to come. */
static bool tell_window(struct viewer *viewer)
{
	const struct window_facts *window = &viewer->window.facts;
	uint64_t *begin_ns = &viewer->begin_ns[window->number % WINDOWS_AHEAD];

	if (window->number >= WINDOWS_AHEAD && viewer->now_ns <= *begin_ns)
		return false;
	*begin_ns = window->begin_ns;
	viewer->message = (struct message){ 0 };
	viewer->message.head_bytes = write_window(viewer->message.head, window);
	viewer->next = 0;
	return true;
}

/* The frame at viewer->next, if it is worth sending. */
static bool choose_frame(struct viewer *viewer)
{
	const struct coded_frame *frame = &viewer->window.frames[viewer->next];

	if (is_useless(viewer, &frame->facts)) {
		viewer->lost_reference |= frame->facts.kind != KIND_B;
		viewer->next++;
		return false;
	}
	if (frame->facts.kind == KIND_I)
		viewer->lost_reference = false;
	viewer->message = (struct message){ .data = frame->data, .data_bytes = frame->bytes };
	viewer->message.head_bytes = write_frame(viewer->message.head, &frame->facts, frame->bytes);
	viewer->next++;
	return true;
}

/* Decides what is sent next. False: nothing, before the player says that it wants more. */
static bool choose(struct viewer *viewer)
{
	if (!viewer->film || viewer->has_ended)
		return false;
	for (;;) {
		if (!viewer->window.frames)
			next_window(viewer);
		if (viewer->has_ended)
			return true;
		if (viewer->next == WINDOW_NOT_TOLD)
			return tell_window(viewer);
		if (viewer->next == window_frames(&viewer->window.facts))
			window_free(&viewer->window);
		else if (choose_frame(viewer))
			return true;
	}
}

/* Sends what the socket takes of one message. False: it has gone. */
static bool send_some(struct viewer *viewer)
{
	struct message *message = &viewer->message;
	struct iovec parts[2] = { { message->head, message->head_bytes }, { (void *)message->data, message->data_bytes } };
	struct msghdr header = { .msg_iov = parts, .msg_iovlen = 2 };
	size_t skip = message->sent, room = option.kbit ? SLOW_BYTES : SIZE_MAX;
	ssize_t sent;

	for (int i = 0; i < 2; i++) {
		const size_t done = skip < parts[i].iov_len ? skip : parts[i].iov_len;
		const size_t left = parts[i].iov_len - done < room ? parts[i].iov_len - done : room;

		parts[i] = (struct iovec){ (uint8_t *)parts[i].iov_base + done, left };
		skip -= done;
		room -= left;
	}
	sent = sendmsg(viewer->fd, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (sent < 0)
		return errno == EAGAIN || errno == EINTR;
	message->sent += (size_t)sent;
	if (option.kbit) {
		const uint64_t earliest = coop_now() - SLOW_QUEUE_NS, from = viewer->free_ns > earliest ? viewer->free_ns : earliest;

		viewer->free_ns = from + (uint64_t)sent * 8 * NS_PER_S / (option.kbit * 1000);
	}
	return true;
}

static bool is_sent(const struct message *message)
{
	return message->sent == message->head_bytes + message->data_bytes;
}

/* Waits for the player to say something, and where there is something to send, for the socket or the slow network to take it. */
static void wait_for(struct coop *coop, struct viewer *viewer, bool has_more)
{
	const bool pauses = has_more && viewer->free_ns > coop_now();

	(void)coop_cancel(coop, &viewer->ready);
	(void)coop_cancel(coop, &viewer->pause);
	viewer->ready.events = has_more && !pauses ? POLLIN | POLLOUT : POLLIN;
	viewer->pause.release = viewer->free_ns;
	if (coop_submit(coop, &viewer->ready) || (pauses && coop_submit(coop, &viewer->pause)))
		leave(coop, viewer);
}

static void serve(struct coop *coop, struct coop_event *event)
{
	struct viewer *viewer = event->user;
	bool has_more;

	if (event == &viewer->ready && event->revents & (POLLIN | POLLHUP | POLLERR) && !listen_to(viewer)) {
		leave(coop, viewer);
		return;
	}
	has_more = !is_sent(&viewer->message) || choose(viewer);
	if (has_more && viewer->free_ns <= coop_now()) {
		if (!send_some(viewer)) {
			leave(coop, viewer);
			return;
		}
		if (is_sent(&viewer->message) && viewer->message.is_last) {
			/* The player closes; what it still says is of no interest. */
			shutdown(viewer->fd, SHUT_WR);
			viewer->message.is_last = false;
		}
		has_more = !is_sent(&viewer->message) || choose(viewer);
	}
	wait_for(coop, viewer, has_more);
}

/* Who connects and is silent would have a place for ever, and sixty-four such shut out everybody else. */
static void end_silence(struct coop *coop, struct coop_event *event)
{
	struct viewer *viewer = event->user;
	const uint64_t now = coop_now(), most_ns = option.silence_s * NS_PER_S;

	if (now > event->release + NS_PER_S)
		/* It was this program that was away. */
		viewer->heard_ns = now;
	event->release = viewer->heard_ns + most_ns;
	if (event->release <= now || coop_submit(coop, event))
		leave(coop, viewer);
}

static void send_off(int fd)
{
	uint8_t message[HEADER_BYTES + MOST_NAME];

	(void)send(fd, message, write_text(message, MESSAGE_REFUSED, "too many players are served already"), MSG_DONTWAIT | MSG_NOSIGNAL);
	close(fd);
}

/* A while after there was no descriptor for a viewer, who still waits: `user` is the event of those who come. */
static void accept_again(struct coop *coop, struct coop_event *event)
{
	(void)coop_submit(coop, event->user);
}

static void accept_viewer(struct coop *coop, struct coop_event *event)
{
	static struct coop_event later = { .type = COOP_TIMER, .callback = accept_again };
	const int fd = accept4(event->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct viewer *viewer;

	if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
		/* It stays ready: to ask again at once would take all of the CPU. */
		later.user = event;
		later.release = coop_now() + NO_ROOM_NS;
		(void)coop_submit(coop, &later);
		return;
	}
	(void)coop_submit(coop, event);
	if (fd < 0)
		return;
	if (viewers == MOST_VIEWERS) {
		send_off(fd);
		return;
	}
	viewers++;
	viewer = allocate(sizeof(*viewer));
	*viewer = (struct viewer){ .fd = fd, .next = WINDOW_NOT_TOLD, .next_viewer = first_viewer, .link = &first_viewer };
	if (first_viewer)
		first_viewer->link = &viewer->next_viewer;
	first_viewer = viewer;
	viewer->ready = (struct coop_event){ .type = COOP_DESCRIPTOR, .fd = fd, .callback = serve, .user = viewer };
	viewer->pause = (struct coop_event){ .type = COOP_TIMER, .callback = serve, .user = viewer };
	viewer->heard_ns = coop_now();
	viewer->silence = (struct coop_event){ .type = COOP_TIMER, .callback = end_silence, .user = viewer };
	viewer->silence.release = viewer->heard_ns + option.silence_s * NS_PER_S;
	if (coop_submit(coop, &viewer->silence))
		leave(coop, viewer);
	else
		wait_for(coop, viewer, false);
}

static void stop(struct coop *coop, struct coop_event *event)
{
	(void)event;
	coop_stop(coop);
}

static void read_options(int argc, char **argv)
{
	static const struct option names[] = {
		{ "listen", required_argument, NULL, 'l' }, { "kbit", required_argument, NULL, 'k' }, { "loop", no_argument, NULL, 'L' },
		{ "silence", required_argument, NULL, 's' }, { "background", no_argument, NULL, 'B' },
		{ "help", no_argument, NULL, 'h' }, { "version", no_argument, NULL, 'V' }, { 0 },
	};
	int name;

	opterr = 0;
	while ((name = getopt_long(argc, argv, "l:k:Ls:BhV", names, NULL)) != -1) {
		switch (name) {
		case 'l': option.listen = optarg; break;
		case 'k': option.kbit = parse_number("--kbit", optarg, 0, 10000000); break;
		case 'L': option.loops = true; break;
		case 's': option.silence_s = parse_number("--silence", optarg, 1, 86400); break;
		case 'B': option.in_background = true; break;
		case 'h': fputs(usage, stdout); exit(STATUS_OK);
		case 'V': puts("streamer " PLAYER_VERSION); exit(STATUS_OK);
		default: die(STATUS_USAGE, "it is unknown, or something is missing", "see streamer --help", "cannot use option '%s'", argv[optind - 1]);
		}
	}
	option.films = argv + optind;
	option.film_count = argc - optind;
	if (!option.film_count)
		die(STATUS_USAGE, "no film is named", "streamer FILM..., see streamer --help", "nothing to serve");
}

static unsigned int port_of(int fd)
{
	struct sockaddr_storage address;
	socklen_t bytes = sizeof(address);
	unsigned char port[2];

	if (getsockname(fd, (struct sockaddr *)&address, &bytes))
		return 0;
	/* At the same place for both families. */
	memcpy(port, (unsigned char *)&address + 2, sizeof(port));
	return port[0] << 8 | port[1];
}

int main(int argc, char **argv)
{
	struct coop_event newcomer = { .type = COOP_DESCRIPTOR, .events = POLLIN, .callback = accept_viewer };
	struct coop_event end = { .type = COOP_DESCRIPTOR, .events = POLLIN, .callback = stop };
	const int bytes = SOCKET_BYTES;
	struct coop *coop;
	int error;

	memory_without_huge_pages();
	read_options(argc, argv);
	for (int i = 0; i < option.film_count; i++)
		film_check(option.films[i]);
	newcomer.fd = listen_at(option.listen);
	printf("ready %u\n", port_of(newcomer.fd));
	fflush(stdout);
	/* Before the thread has its scheduler, which a child would not have. Relative names of films stay right. */
	if (option.in_background && daemon(1, 0))
		die(STATUS_FAILED, strerror(errno), "start it with & in place of --background", "cannot go on in the background");
	/* Those of the viewers have it from here. */
	(void)setsockopt(newcomer.fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	end.fd = end_signals();
	error = coop_new(&coop);
	if (!error)
		error = coop_submit(coop, &newcomer);
	if (!error)
		error = coop_submit(coop, &end);
	if (error)
		die(STATUS_FAILED, strerror(-error), "allow this process more descriptors (ulimit -n)", "cannot begin");
	coop_run(coop);
	while (first_viewer)
		leave(coop, first_viewer);
	coop_free(coop);
	return STATUS_OK;
}
