/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A binary heap whose items know their places, so that any of them can be taken out: a release queue. No BPF, no kernel: host tests
 * compile this file too. What an item is in is its owner's to know: ll_heap_remove() looks whether it is in this one.
 *
 * Both sizes are powers of two, and every index is masked: the verifier sees that it is in bounds. Where a walk is, it must not see, or it would
 * follow each way through the heap: so that is kept in the heap, in memory that it knows nothing about.
 */
#ifndef LIMELIGHT_MATH_HEAP_H
#define LIMELIGHT_MATH_HEAP_H

enum ll_heap_sizes {
	LL_HEAP_DEPTH = 10,
	LL_HEAP_ROOM = 1 << LL_HEAP_DEPTH,
	LL_HEAP_ITEMS = 4096,	/* different items in all heaps that share `places` */
};

struct ll_heap_entry {
	u64 key;
	u32 item;
	u32 pad;
};

/* The least key first; of equals any. */
struct ll_heap {
	u32 count;
	u32 walk;	/* where a walk is */
	struct ll_heap_entry at[LL_HEAP_ROOM];
};

/* @place, of which nothing is known. */
static inline u32 ll_heap_walk_to(struct ll_heap *heap, u32 place)
{
	*(volatile u32 *)&heap->walk = place;
	return *(volatile u32 *)&heap->walk;
}

static inline struct ll_heap_entry *ll_heap_at(struct ll_heap *heap, u32 place)
{
	return &heap->at[place & (LL_HEAP_ROOM - 1)];
}

static inline void ll_heap_set(struct ll_heap *heap, u16 *places, u32 place, struct ll_heap_entry entry)
{
	*ll_heap_at(heap, place) = entry;
	places[entry.item & (LL_HEAP_ITEMS - 1)] = place;
}

/* Put @entry where it belongs, on the way from the free @place to the root. */
static inline void ll_heap_rise(struct ll_heap *heap, u16 *places, u32 place, struct ll_heap_entry entry)
{
	struct ll_heap_entry parent;
	int i;

	for (i = 0; i < LL_HEAP_DEPTH && place; i++) {
		parent = *ll_heap_at(heap, (place - 1) / 2);
		if (parent.key <= entry.key)
			break;
		ll_heap_set(heap, places, place, parent);
		place = ll_heap_walk_to(heap, (place - 1) / 2);
	}
	ll_heap_set(heap, places, place, entry);
}

/* The same, on the way from the free @place down; where none below it is less, on the way up. */
static inline void ll_heap_settle(struct ll_heap *heap, u16 *places, u32 place, struct ll_heap_entry entry)
{
	u32 child;
	int i;

	for (i = 0; i < LL_HEAP_DEPTH; i++) {
		child = 2 * place + 1;
		if (child >= heap->count)
			break;
		if (child + 1 < heap->count && ll_heap_at(heap, child + 1)->key < ll_heap_at(heap, child)->key)
			child++;
		if (entry.key <= ll_heap_at(heap, child)->key)
			break;
		ll_heap_set(heap, places, place, *ll_heap_at(heap, child));
		place = ll_heap_walk_to(heap, child);
	}
	ll_heap_rise(heap, places, place, entry);
}

/* False where the heap is full. @item is in no heap. */
static inline int ll_heap_insert(struct ll_heap *heap, u16 *places, u32 item, u64 key)
{
	struct ll_heap_entry entry = { .key = key, .item = item };

	if (heap->count >= LL_HEAP_ROOM)
		return 0;
	ll_heap_rise(heap, places, heap->count++, entry);
	return 1;
}

/*
 * False where @item is not in this heap. The first entry needs no place to be found: of two CPUs that put one item into two heaps at once, or twice
 * into one, the place is of the later, and what nobody could take out would be the first for good.
 */
static inline int ll_heap_remove(struct ll_heap *heap, u16 *places, u32 item)
{
	u32 place = heap->count && heap->at[0].item == item ? 0 : places[item & (LL_HEAP_ITEMS - 1)];
	struct ll_heap_entry last;

	if (place >= heap->count || ll_heap_at(heap, place)->item != item)
		return 0;
	last = *ll_heap_at(heap, --heap->count);
	if (place < heap->count)
		ll_heap_settle(heap, places, place, last);
	return 1;
}

/* @none where it is empty. */
static inline u64 ll_heap_first(const struct ll_heap *heap, u64 none)
{
	return heap->count ? heap->at[0].key : none;
}

#endif /* LIMELIGHT_MATH_HEAP_H */
