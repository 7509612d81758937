// SPDX-License-Identifier: MIT
/*
 * A queue of events: a binary heap of (key, order of submission), so that equal keys leave in the order they came and a run
 * is deterministic. Keys are copied in: the caller may change an event's fields without harming the order. Each event knows
 * its place, so that taking one out of the middle is O(log n) as well.
 */
#include <errno.h>
#include <stdlib.h>

#include "internal.h"

#define FIRST_ROOM 16

static bool is_before(const struct node *a, const struct node *b)
{
	return a->key != b->key ? a->key < b->key : a->order < b->order;
}

static void put(struct queue *queue, size_t place, struct node node)
{
	queue->nodes[place] = node;
	node.event->position = place;
}

static void sift_up(struct queue *queue, size_t place, struct node node)
{
	while (place > 0) {
		const size_t parent = (place - 1) / 2;

		if (!is_before(&node, &queue->nodes[parent]))
			break;
		put(queue, place, queue->nodes[parent]);
		place = parent;
	}
	put(queue, place, node);
}

static void sift_down(struct queue *queue, size_t place, struct node node)
{
	for (;;) {
		size_t child = 2 * place + 1;

		if (child >= queue->count)
			break;
		if (child + 1 < queue->count && is_before(&queue->nodes[child + 1], &queue->nodes[child]))
			child++;
		if (!is_before(&queue->nodes[child], &node))
			break;
		put(queue, place, queue->nodes[child]);
		place = child;
	}
	put(queue, place, node);
}

int queue_push(struct queue *queue, struct coop_event *event, u64 key, u64 order)
{
	if (queue->count == queue->room) {
		const size_t room = queue->room ? 2 * queue->room : FIRST_ROOM;
		struct node *nodes = reallocarray(queue->nodes, room, sizeof(*nodes));

		if (!nodes)
			return -ENOMEM;
		queue->nodes = nodes;
		queue->room = room;
	}
	sift_up(queue, queue->count++, (struct node){ .key = key, .order = order, .event = event });
	return 0;
}

void queue_remove(struct queue *queue, struct coop_event *event)
{
	const size_t place = event->position;
	const struct node last = queue->nodes[--queue->count];

	if (place == queue->count)
		return;
	if (place > 0 && is_before(&last, &queue->nodes[(place - 1) / 2]))
		sift_up(queue, place, last);
	else
		sift_down(queue, place, last);
}
