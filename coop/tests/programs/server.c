// SPDX-License-Identifier: MIT
#include "server.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "testing.h"

#define MAX_CONNECTIONS 512
#define MAX_DESCRIPTORS 8
#define MAX_ASKS 64

struct server {
	struct server_faults faults;
	char path[64];
	int listener, end[2];
	int connections[MAX_CONNECTIONS];
	struct server_client clients[MAX_CONNECTIONS];
	int asked;
	struct coop_slot *page;
	struct coop_hello hello;
	struct coop_ask asks[MAX_ASKS];
	int asked_of_groups;
	pthread_mutex_t lock;
	pthread_t thread;
};

static u32 or_else(u32 wrong, u32 right)
{
	return wrong ? wrong : right;
}

/* A page as a file in memory, with its header. */
static int make_page(struct server *server)
{
	const struct server_faults *faults = &server->faults;
	const u32 slots = or_else(faults->slots, 31);
	const off_t bytes = faults->page_bytes ? faults->page_bytes : (off_t)(slots + 1) * COOP_CELL_BYTES;
	const struct coop_header header = {
		.magic = or_else(faults->header_magic, COOP_ABI_MAGIC),
		.version = or_else(faults->header_version, COOP_ABI_VERSION),
		.cell_bytes = or_else(faults->header_cell_bytes, COOP_CELL_BYTES),
		.slots = or_else(faults->header_slots, slots),
	};
	const int fd = memfd_create("coop-page", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	CHECK(fd >= 0);
	CHECK_EQ(ftruncate(fd, bytes), 0);
	CHECK_EQ(pwrite(fd, &header, sizeof(header), 0), sizeof(header));
	if (!faults->is_unsealed)
		CHECK_EQ(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	server->page = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(server->page != MAP_FAILED);
	/* So that a page in a child is the library's doing. */
	CHECK_EQ(madvise(server->page, (size_t)bytes, MADV_DONTFORK), 0);
	return fd;
}

static void answer(struct server *server, int connection)
{
	const struct server_faults *faults = &server->faults;
	const size_t count = (size_t)(1 + faults->descriptors);
	union {
		char bytes[CMSG_SPACE(MAX_DESCRIPTORS * sizeof(int))];
		struct cmsghdr first;
	} control = { 0 };
	struct coop_welcome welcome[2] = { {
		.magic = or_else(faults->magic, COOP_ABI_MAGIC),
		.version = or_else(faults->version, COOP_ABI_VERSION),
		.error = faults->error,
		.slots = or_else(faults->slots, 31),
	} };
	struct iovec part = { .iov_base = welcome, .iov_len = faults->message_bytes ? faults->message_bytes : sizeof(welcome[0]) };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
	const int page = make_page(server);
	int all[MAX_DESCRIPTORS];

	for (size_t i = 0; i < MAX_DESCRIPTORS; i++)
		all[i] = page;
	if (count) {
		message.msg_control = control.bytes;
		message.msg_controllen = CMSG_SPACE(count * sizeof(int));
		control.first = (struct cmsghdr){ .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(count * sizeof(int)) };
		memcpy(CMSG_DATA(&control.first), all, count * sizeof(int));
	}
	usleep((useconds_t)faults->delay_ms * 1000);
	(void)sendmsg(connection, &message, MSG_NOSIGNAL);
	close(page);
}

static pid_t pid_of(int connection)
{
	struct ucred peer = { 0 };
	socklen_t bytes = sizeof(peer);

	CHECK_EQ(getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &bytes), 0);
	return peer.pid;
}

static void greet(struct server *server)
{
	const int connection = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC);

	CHECK(connection >= 0);
	const pid_t pid = pid_of(connection);
	pthread_mutex_lock(&server->lock);
	CHECK(server->asked < MAX_CONNECTIONS);
	server->connections[server->asked] = -1;
	server->page = NULL;
	CHECK_EQ(recv(connection, &server->hello, sizeof(server->hello), 0), sizeof(server->hello));
	if (server->faults.hangs_up) {
		close(connection);
	} else {
		server->connections[server->asked] = connection;
		if (!server->faults.is_silent)
			answer(server, connection);
	}
	server->clients[server->asked] = (struct server_client){ .pid = pid, .page = server->page };
	server->asked++;
	pthread_mutex_unlock(&server->lock);
}

/* The token that is given for a group: its bytes count up from the number of the group. */
static void answer_ask(struct server *server, int connection, const struct coop_ask *ask)
{
	const struct server_faults *faults = &server->faults;
	struct coop_reply reply = {
		.magic = or_else(faults->reply_magic, COOP_ABI_MAGIC), .version = COOP_ABI_VERSION, .error = faults->ask_error, .number = ask->number,
	};

	for (u32 i = 0; i < sizeof(reply.token); i++)
		reply.token[i] = (u8)(ask->gid + i);
	for (int old = faults->old_replies; old > 0; old--) {
		const struct coop_reply other = { .magic = COOP_ABI_MAGIC, .version = COOP_ABI_VERSION, .error = -1, .number = ask->number - (u64)old };

		(void)send(connection, &other, sizeof(other), MSG_NOSIGNAL);
	}
	if (!faults->is_mute)
		(void)send(connection, &reply, sizeof(reply), MSG_NOSIGNAL);
}

/* One question on the newest connection. False: there is none any more. */
static bool hear(struct server *server, int connection)
{
	struct coop_ask ask = { 0 };
	const ssize_t got = recv(connection, &ask, sizeof(ask), MSG_TRUNC);

	if (got <= 0)
		return false;
	CHECK_EQ(got, sizeof(ask));
	pthread_mutex_lock(&server->lock);
	CHECK(server->asked_of_groups < MAX_ASKS);
	server->asks[server->asked_of_groups++] = ask;
	pthread_mutex_unlock(&server->lock);
	if (server->faults.knows_no_asks)
		return false;
	answer_ask(server, connection, &ask);
	return true;
}

/* The newest connection; -1: none that is open. */
static int newest(struct server *server)
{
	pthread_mutex_lock(&server->lock);
	const int connection = server->asked ? server->connections[server->asked - 1] : -1;
	pthread_mutex_unlock(&server->lock);
	return connection;
}

static void close_newest(struct server *server)
{
	pthread_mutex_lock(&server->lock);
	close(server->connections[server->asked - 1]);
	server->connections[server->asked - 1] = -1;
	pthread_mutex_unlock(&server->lock);
}

static void *serve(void *data)
{
	struct server *server = data;
	struct pollfd all[] = { { .fd = server->listener, .events = POLLIN }, { .fd = server->end[0], .events = POLLIN }, { .events = POLLIN } };

	for (;;) {
		all[2].fd = newest(server);
		if (poll(all, 3, -1) <= 0 || all[1].revents)
			return NULL;
		if (all[2].fd >= 0 && all[2].revents && !hear(server, all[2].fd))
			close_newest(server);
		if (all[0].revents)
			greet(server);
	}
}

struct server *server_start(const struct server_faults *faults)
{
	struct server *server = calloc(1, sizeof(*server));
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	CHECK(server != NULL);
	server->faults = *faults;
	pthread_mutex_init(&server->lock, NULL);
	snprintf(server->path, sizeof(server->path), "/tmp/coop-test.%d", (int)getpid());
	unlink(server->path);
	strcpy(address.sun_path, server->path);
	server->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	CHECK_EQ(bind(server->listener, (struct sockaddr *)&address, sizeof(address)), 0);
	CHECK_EQ(listen(server->listener, 8), 0);
	CHECK_EQ(pipe2(server->end, O_CLOEXEC), 0);
	CHECK_EQ(setenv("COOP_SOCKET", server->path, 1), 0);
	CHECK_EQ(pthread_create(&server->thread, NULL, serve, server), 0);
	return server;
}

void server_stop(struct server *server)
{
	CHECK_EQ(write(server->end[1], "x", 1), 1);
	pthread_join(server->thread, NULL);
	close(server->listener);
	unlink(server->path);
	for (int i = 0; i < server->asked; i++)
		if (server->connections[i] >= 0)
			close(server->connections[i]);
	close(server->end[0]);
	close(server->end[1]);
	free(server);
}

int server_asked(struct server *server)
{
	pthread_mutex_lock(&server->lock);
	const int asked = server->asked;
	pthread_mutex_unlock(&server->lock);
	return asked;
}

struct server_client server_client(struct server *server, int number)
{
	pthread_mutex_lock(&server->lock);
	const struct server_client client = number < server->asked ? server->clients[number] : (struct server_client){ 0 };
	pthread_mutex_unlock(&server->lock);
	return client;
}

struct coop_slot *server_page(struct server *server)
{
	struct coop_slot *last = NULL;

	for (int number = server_asked(server) - 1; number >= 0 && !last; number--)
		last = server_client(server, number).page;
	return last;
}

struct coop_hello server_hello(struct server *server)
{
	pthread_mutex_lock(&server->lock);
	const struct coop_hello hello = server->hello;
	pthread_mutex_unlock(&server->lock);
	return hello;
}

int server_asked_of_groups(struct server *server)
{
	pthread_mutex_lock(&server->lock);
	const int asked = server->asked_of_groups;
	pthread_mutex_unlock(&server->lock);
	return asked;
}

struct coop_ask server_ask(struct server *server, int number)
{
	pthread_mutex_lock(&server->lock);
	const struct coop_ask ask = server->asks[number];
	pthread_mutex_unlock(&server->lock);
	return ask;
}
