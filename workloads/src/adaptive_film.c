// SPDX-License-Identifier: GPL-2.0-only
#include "adaptive_film.h"

/* Frames of a scene: half a second to two at 25 a second. */
#define SCENE_FRAMES_LEAST 12
#define SCENE_FRAMES_MOST 50

static void begin_frame(struct film *film)
{
	if (!film->scene_frames) {
		film->scene_frames = random_between(&film->random, SCENE_FRAMES_LEAST, SCENE_FRAMES_MOST);
		film->scene_frame_us = film->frame_us * random_between(&film->random, 100 - film->vary_pct, 100 + film->vary_pct) / 100;
	}
	film->scene_frames--;
	film->left_us = film->scene_frame_us;
}

void film_begin(struct film *film, uint64_t frame_us, uint64_t vary_pct, uint64_t ahead_most, uint64_t seed, uint64_t steps_per_ms)
{
	*film = (struct film){ .frame_us = frame_us, .vary_pct = vary_pct, .ahead_most = ahead_most, .steps_per_ms = steps_per_ms };
	random_seed(&film->random, seed);
	begin_frame(film);
}

bool film_has_work(const struct film *film)
{
	return !film->ahead_most || film->ahead < film->ahead_most;
}

bool film_decode(struct film *film, uint64_t event_us)
{
	const bool is_last = film->left_us <= event_us;

	burn_us(is_last && film->frame_us ? film->left_us : event_us, film->steps_per_ms);
	if (!is_last) {
		film->left_us -= event_us;
		return false;
	}
	film->decoded++;
	film->ahead++;
	begin_frame(film);
	return true;
}

bool film_show(struct film *film)
{
	if (!film->ahead)
		return false;
	film->ahead--;
	return true;
}
