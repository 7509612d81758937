// SPDX-License-Identifier: MIT
/*
 * How the process gets its page from limelight's daemon, and notices that the daemon has gone.
 *
 * The promise: a daemon that is absent, slow, restarted, of another version or hostile costs the program a few system calls a
 * second, and nothing else. So nothing here waits (but attach_wait(), which coop_new() uses), nothing that comes over the socket
 * is believed without a look, and what has ended is tried again.
 *
 * One process has one page. Threads move to a new one by themselves, and the last to leave the old one unmaps it.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "internal.h"

/* Where no daemon listens the next try comes soon: a connect() that fails takes some us. */
#define RETRY_NS (1 * NS_PER_S)
/* A daemon that refused, or that talks nonsense, will not soon do better. */
#define REFUSED_RETRY_NS (60 * NS_PER_S)
/* A daemon that is starved answers late. Looking costs one system call. */
#define LOOK_NS (1 * NS_PER_MS)
#define ANSWER_WITHIN_NS (5 * NS_PER_S)
/* And how long a question about a group may take: the turns of other threads' questions and the way to a page included. */
#define ASK_WITHIN_NS (1 * NS_PER_S)
/* How long the end of a daemon can go unnoticed; calls that nobody answers tell sooner that there is no promise. */
#define ALIVE_NS (100 * NS_PER_MS)
/* Below the usual limit on descriptors (1024), above what is used by number. */
#define OUT_OF_THE_WAY_FD 900
/* The kernel's last. */
#define MAX_ERRNO 4095

_Atomic(u64) attach_next_ns;
_Atomic(struct page *) attach_page;
_Atomic(int) attach_error;

/* All under the lock. A thread that finds it taken goes on without: another one is looking. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int connection = -1;
/* Which file the connection is: the program may close every descriptor it finds, and open its own under the same number. */
static struct stat identity;
static u64 asked_ns;

void stretch_begin(struct stretch *stretch)
{
	/* What the thread itself brings about ends the process where it is blocked. Of a sandbox that answers by SIGSYS the handler has to run. */
	static const int own[] = { SIGSYS, SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP };
	sigset_t all;

	sigfillset(&all);
	for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++)
		sigdelset(&all, own[i]);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &stretch->cancel_state);
	pthread_sigmask(SIG_SETMASK, &all, &stretch->mask);
}

void stretch_end(const struct stretch *stretch)
{
	pthread_sigmask(SIG_SETMASK, &stretch->mask, NULL);
	pthread_setcancelstate(stretch->cancel_state, NULL);
}

/* Another thread can close it right after this look; then at worst the program's own descriptor is peeked at once. */
static bool is_connection_ours(void)
{
	struct stat status;

	return connection >= 0 && !fstat(connection, &status) && status.st_ino == identity.st_ino && status.st_dev == identity.st_dev;
}

static void forget_page(void)
{
	struct page *page = atomic_exchange(&attach_page, NULL);

	if (page)
		attach_release(page);
}

/* @reason, a negative errno, is why there is no page from now on. */
static void hang_up(u64 next_ns, int reason)
{
	if (is_connection_ours())
		close(connection);
	connection = -1;
	atomic_store(&attach_error, reason);
	forget_page();
	atomic_store(&attach_next_ns, next_ns);
}

/*
 * Where to ask; false where that is nowhere. A set-user-id program does not let its caller choose. Looked up once: other threads of
 * the program may change the environment at any time.
 */
static bool find_daemon(struct sockaddr_un *found)
{
	static struct sockaddr_un address;
	const char *path;

	if (address.sun_family == AF_UNSPEC) {
		path = secure_getenv("COOP_SOCKET");
		if (!path)
			path = COOP_SOCKET_PATH;
		address.sun_family = AF_UNIX;
		if (strlen(path) < sizeof(address.sun_path))
			strcpy(address.sun_path, path);
	}
	*found = address;
	return *address.sun_path;
}

/*
 * The table of descriptors grows at once where one thread has it. Where several share it the kernel waits for a grace period of RCU: tens of ms,
 * and seconds on a loaded machine, in the thread's first call. So it grows as the library is loaded, and never shrinks.
 */
void attach_make_room(void)
{
	const int first = open("/", O_PATH | O_CLOEXEC), moved = first < 0 ? -1 : fcntl(first, F_DUPFD_CLOEXEC, OUT_OF_THE_WAY_FD);

	if (moved >= 0)
		close(moved);
	if (first >= 0)
		close(first);
}

/*
 * A socket with a number that programs do not mean: one that was started without standard input would read from 0, and shells and
 * daemons use the low ones by number. Where so high a one is not allowed, any that is not standard.
 */
static int open_socket(void)
{
	const int first = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int moved;

	if (first < 0)
		return -1;
	moved = fcntl(first, F_DUPFD_CLOEXEC, OUT_OF_THE_WAY_FD);
	if (moved < 0)
		moved = fcntl(first, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	close(first);
	return moved;
}

/* Of what socket(), connect() and send() failed with: that nobody listens has one number, though there are several ways. */
static int reason_not_asked(int error)
{
	switch (error) {
	case ENOENT:
	case ECONNREFUSED:
		return -ENOTCONN;
	case EPIPE:
		return -ECONNRESET;
	default:
		return -error;
	}
}

/*
 * Whether CLOCK_MONOTONIC is the scheduler's: false in a time namespace, where a release would be due at another time than was meant. Where that
 * cannot be read, as in a sandbox, it is taken for the usual one.
 */
static bool is_clock_the_schedulers(void)
{
	static const char name[] = "monotonic";
	char text[128];
	const int fd = open("/proc/self/timens_offsets", O_RDONLY | O_CLOEXEC);
	ssize_t bytes;
	char *at;

	if (fd < 0)
		return true;
	bytes = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (bytes < (ssize_t)sizeof(name) || strncmp(text, name, sizeof(name) - 1))
		return true;
	text[bytes] = '\0';
	/* Seconds and nanoseconds. */
	return !strtol(text + sizeof(name) - 1, &at, 10) && !strtol(at, NULL, 10);
}

static void ask(u64 now_ns)
{
	const struct coop_hello hello = { .magic = COOP_ABI_MAGIC, .version = COOP_ABI_VERSION };
	struct sockaddr_un address;

	if (!find_daemon(&address)) {
		hang_up(COOP_NEVER, -ENOTCONN);
		return;
	}
	if (!is_clock_the_schedulers()) {
		hang_up(now_ns + REFUSED_RETRY_NS, -ENOTSUP);
		return;
	}
	connection = open_socket();
	/* Not blocking: a full queue of a daemon that hangs is as good as no daemon. */
	if (connection < 0 || fstat(connection, &identity) || connect(connection, (struct sockaddr *)&address, sizeof(address)) ||
	    send(connection, &hello, sizeof(hello), MSG_NOSIGNAL) != (ssize_t)sizeof(hello)) {
		hang_up(now_ns + RETRY_NS, reason_not_asked(errno));
		return;
	}
	asked_ns = now_ns;
	atomic_store(&attach_error, 0);
	atomic_store(&attach_next_ns, now_ns);
}

/*
 * The one descriptor that came along; -EPROTO where there is none, or more (which are closed), -EMFILE where the process had no number left
 * for it: the kernel cuts it off then, though there is room for two.
 */
static int take_descriptor(struct msghdr *message)
{
	int taken = -1;
	size_t count = 0;

	for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part; part = CMSG_NXTHDR(message, part)) {
		if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t at = 0; at + sizeof(int) <= part->cmsg_len - CMSG_LEN(0); at += sizeof(int), count++) {
			if (taken >= 0)
				close(taken);
			memcpy(&taken, CMSG_DATA(part) + at, sizeof(taken));
		}
	}
	if (taken < 0)
		return message->msg_flags & MSG_CTRUNC ? -EMFILE : -EPROTO;
	if (count != 1 || message->msg_flags & MSG_CTRUNC) {
		close(taken);
		return -EPROTO;
	}
	return taken;
}

/* A file that is, or becomes, shorter than the page would kill whoever reads behind its end; a map's size is checked by mmap(). */
static bool is_safe_to_map(int fd, size_t bytes)
{
	struct stat status;

	if (fstat(fd, &status))
		return false;
	if (!S_ISREG(status.st_mode))
		return true;
	const int seals = fcntl(fd, F_GET_SEALS);
	return status.st_size >= (off_t)bytes && seals >= 0 && seals & F_SEAL_SHRINK;
}

static bool is_page(const struct coop_header *header, u32 slots)
{
	return header->magic == COOP_ABI_MAGIC && header->version == COOP_ABI_VERSION && header->cell_bytes == COOP_CELL_BYTES &&
	       header->slots == slots;
}

/* 0; -ENOMEM; -EPROTO: it is no page. */
static int map_page(int fd, u32 slots, struct page **mapped)
{
	const size_t bytes = ((size_t)slots + 1) * COOP_CELL_BYTES;
	struct page *page;
	void *cells;
	int error;

	if (!is_safe_to_map(fd, bytes))
		return -EPROTO;
	cells = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (cells == MAP_FAILED)
		return errno == ENOMEM ? -ENOMEM : -EPROTO;
	/* Not malloc(): this may be a signal handler's poll(2), in the middle of the program's own malloc(). */
	page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	/* A child that wrote into its parent's slots would speak for the parent. */
	if (page == MAP_FAILED || madvise(cells, bytes, MADV_DONTFORK))
		error = -ENOMEM;
	else
		error = is_page(cells, slots) ? 0 : -EPROTO;
	if (error) {
		if (page != MAP_FAILED)
			munmap(page, sizeof(*page));
		munmap(cells, bytes);
		return error;
	}
	page->cells = cells;
	page->bytes = bytes;
	page->slots = slots;
	atomic_init(&page->holders, 1);
	*mapped = page;
	return 0;
}

/* 0: it is a welcome; or why there is no page: in the daemon's words, where they make sense. */
static int read_welcome(const struct coop_welcome *welcome, ssize_t got, int flags)
{
	if (got != (ssize_t)sizeof(*welcome) || welcome->magic != COOP_ABI_MAGIC)
		return -EPROTO;
	/* Another version's may be longer; it begins alike. */
	if (welcome->version != COOP_ABI_VERSION)
		return -EPROTONOSUPPORT;
	if (welcome->error >= -MAX_ERRNO && welcome->error < 0)
		return welcome->error;
	if (welcome->error || flags & MSG_TRUNC || welcome->slots < 1 || welcome->slots > COOP_MAX_SLOTS)
		return -EPROTO;
	return 0;
}

/* Takes the daemon's answer if it is there. */
static void listen_for_page(u64 now_ns)
{
	/* Aligned as cmsghdr has to be; room for two, so that one too many is seen and not cut off. */
	union {
		char bytes[CMSG_SPACE(2 * sizeof(int))];
		struct cmsghdr first;
	} control;
	struct coop_welcome welcome;
	struct iovec part = { .iov_base = &welcome, .iov_len = sizeof(welcome) };
	struct msghdr message = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes),
	};
	const ssize_t got = recvmsg(connection, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	const bool is_not_there = got < 0 && (errno == EAGAIN || errno == EINTR);
	struct page *page;
	int error;

	if (is_not_there && now_ns - asked_ns < ANSWER_WITHIN_NS) {
		atomic_store(&attach_next_ns, now_ns + LOOK_NS);
		return;
	}
	if (got <= 0) {
		hang_up(now_ns + RETRY_NS, is_not_there ? -ETIMEDOUT : -ECONNRESET);
		return;
	}
	const int fd = take_descriptor(&message);
	error = read_welcome(&welcome, got, message.msg_flags);
	if (!error)
		error = fd < 0 ? fd : map_page(fd, welcome.slots, &page);
	if (fd >= 0)
		close(fd);
	if (error) {
		/* What this process is short of it may have again soon. */
		hang_up(now_ns + (error == -EMFILE || error == -ENOMEM ? RETRY_NS : REFUSED_RETRY_NS), error);
		return;
	}
	atomic_store(&attach_page, page);
	atomic_store(&attach_next_ns, now_ns + ALIVE_NS);
}

static void look_whether_alive(u64 now_ns)
{
	char byte;
	/*
	 * Unasked no second message comes, but for the answer to a question that was given up. It is left there: what is peeked at is not lost to whose it
	 * is after all.
	 */
	const ssize_t got = recv(connection, &byte, sizeof(byte), MSG_DONTWAIT | MSG_PEEK);

	if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
		hang_up(now_ns, -ECONNRESET);
	else
		atomic_store(&attach_next_ns, now_ns + ALIVE_NS);
}

static void step(u64 now_ns)
{
	if (now_ns < atomic_load(&attach_next_ns))
		return;
	if (connection >= 0 && !is_connection_ours())
		hang_up(now_ns, -ECONNRESET);
	if (connection < 0)
		ask(now_ns);
	else if (!atomic_load(&attach_page))
		listen_for_page(now_ns);
	else
		look_whether_alive(now_ns);
}

void attach_step(u64 now_ns)
{
	struct stretch stretch;

	stretch_begin(&stretch);
	if (!pthread_mutex_trylock(&lock)) {
		step(now_ns);
		pthread_mutex_unlock(&lock);
	}
	stretch_end(&stretch);
}

/* Until @end_ns, for poll(): not less, or who waits would look again and again in the last millisecond. */
static int left_ms(u64 end_ns)
{
	const u64 now_ns = coop_now();

	return now_ns < end_ns ? (int)((end_ns - now_ns) / NS_PER_MS) + 1 : 0;
}

static void wait_for_page(int patience_ms)
{
	step(coop_now());
	if (connection >= 0 && !atomic_load(&attach_page)) {
		struct pollfd one = { .fd = connection, .events = POLLIN };

		(void)poll(&one, 1, patience_ms);
		atomic_store(&attach_next_ns, 0);
		step(coop_now());
	}
}

void attach_wait(int patience_ms)
{
	struct stretch stretch;

	stretch_begin(&stretch);
	pthread_mutex_lock(&lock);
	wait_for_page(patience_ms);
	pthread_mutex_unlock(&lock);
	stretch_end(&stretch);
}

/* The answer to question @number, until @end_ns; what else comes answers one that was given up, or is nonsense. */
static int hear_answer(u64 number, u64 end_ns, struct coop_reply *reply)
{
	for (int patience_ms = left_ms(end_ns); patience_ms > 0; patience_ms = left_ms(end_ns)) {
		struct pollfd one = { .fd = connection, .events = POLLIN };
		const int ready = poll(&one, 1, patience_ms);

		if (ready < 0 && errno != EINTR)
			return -errno;
		if (ready <= 0)
			continue;
		/* Other threads of the program may have closed what they found meanwhile, and what stands there now is theirs to read. */
		if (!is_connection_ours()) {
			hang_up(coop_now(), -ECONNRESET);
			return -ECONNRESET;
		}
		const ssize_t got = recv(connection, reply, sizeof(*reply), MSG_DONTWAIT | MSG_TRUNC);

		if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
			hang_up(coop_now(), -ECONNRESET);
			return -ECONNRESET;
		}
		if (got == (ssize_t)sizeof(*reply) && reply->magic == COOP_ABI_MAGIC && reply->version == COOP_ABI_VERSION && reply->number == number)
			return reply->error >= -MAX_ERRNO && reply->error <= 0 ? reply->error : -EPROTO;
	}
	return -ETIMEDOUT;
}

static int ask_daemon(struct coop_ask *ask, u64 end_ns, struct coop_reply *reply)
{
	static u64 number;

	if (connection >= 0 && !is_connection_ours())
		hang_up(coop_now(), -ECONNRESET);
	/* One that has ended since the last look is no answer to this. */
	if (atomic_load(&attach_page))
		look_whether_alive(coop_now());
	wait_for_page(left_ms(end_ns));
	if (!atomic_load(&attach_page))
		return -ENOTCONN;
	/* Whose answer nobody would wait for is not asked: it would be done, and said not to be. */
	if (!left_ms(end_ns))
		return -ETIMEDOUT;
	ask->number = ++number;
	if (send(connection, ask, sizeof(*ask), MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)sizeof(*ask)) {
		hang_up(coop_now(), -ECONNRESET);
		return -ECONNRESET;
	}
	return hear_answer(ask->number, end_ns, reply);
}

int attach_ask(struct coop_ask *ask, struct coop_reply *reply)
{
	const u64 end_ns = coop_now() + ASK_WITHIN_NS;
	const struct timespec end = timespec_of(end_ns);
	struct stretch stretch;
	int error = -ETIMEDOUT;

	stretch_begin(&stretch);
	/* Other threads ask, too, and each may have to wait for its own answer. */
	if (!pthread_mutex_clocklock(&lock, CLOCK_MONOTONIC, &end)) {
		error = ask_daemon(ask, end_ns, reply);
		pthread_mutex_unlock(&lock);
	}
	stretch_end(&stretch);
	return error;
}

struct page *attach_hold(void)
{
	struct page *page;

	if (pthread_mutex_trylock(&lock))
		return NULL;
	page = atomic_load(&attach_page);
	if (page)
		atomic_fetch_add(&page->holders, 1);
	pthread_mutex_unlock(&lock);
	return page;
}

void attach_release(struct page *page)
{
	if (atomic_fetch_sub(&page->holders, 1) != 1)
		return;
	munmap(page->cells, page->bytes);
	munmap(page, sizeof(*page));
}

void attach_before_fork(void)
{
	pthread_mutex_lock(&lock);
}

void attach_in_parent(void)
{
	pthread_mutex_unlock(&lock);
}

/* The mapping is not there (MADV_DONTFORK), and the connection is the parent's: the daemon must see the parent's end. */
void attach_in_child(void)
{
	struct page *page = atomic_exchange(&attach_page, NULL);

	if (is_connection_ours())
		close(connection);
	connection = -1;
	if (page)
		munmap(page, sizeof(*page));
	atomic_store(&attach_error, 0);
	atomic_store(&attach_next_ns, 0);
	pthread_mutex_unlock(&lock);
}

void attach_in_unseen_child(void)
{
	/* Its holder, if there was one, is not in this process. */
	pthread_mutex_init(&lock, NULL);
	pthread_mutex_lock(&lock);
	attach_in_child();
}
