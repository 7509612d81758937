// SPDX-License-Identifier: MIT
/*
 * Cuts a film of H.264 into windows and puts the frames of each in order of importance.
 *
 * A window is what lies between two anchors in coding order: an anchor, which is shown after all that was coded before it, and the frames that
 * are shown before it and were coded after. An anchor that is a key frame, and would be a window of one, takes the next anchor in.
 *
 * Importance within a window: first what others need, in the order of coding; then the B frames that nothing needs, so that those that are left
 * when the rest is dropped are spread evenly: of seven the middle one, then those in the middle of the halves, then the others (the
 * order of van der Corput). A decoder takes B frames in any order, as long as it has had all references of their window and no later ones.
 * Where an encoder puts references behind B frames in a window, the order of coding stays.
 *
 * What it is bad at: how much the adaptation can do is up to the encoder. Without B frames only the rest of a group can be dropped, up to the
 * next I frame. Reading a file blocks: a server of many films would do it in a thread.
 */
#include "film.h"

#include <libavcodec/bsf.h>
#include <libavformat/avformat.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"

static const char fix[] = "make one: ffmpeg -i FILM -an -pix_fmt yuv420p -c:v libx264 -bf 7 OTHER.mkv";

struct film {
	AVFormatContext *file;
	AVBSFContext *filter;		/* to start codes, with the parameter sets in front of each I frame */
	int stream;
	bool loops;
	uint64_t frame_ns;
	uint64_t loop_ns, last_end_ns;	/* begin of this time round, and the end of all so far */
	uint64_t last_shown_ns;		/* the latest frame of the window that was cut last */
	struct window next;		/* cut already: its begin is known to the one before it */
	int64_t first;			/* time stamp of the file's first frame */
	AVPacket *packet;		/* the one that did not fit into the last window */
	bool has_packet, has_begun, has_ended;
	uint32_t number;		/* of the window that is cut next */
	uint32_t group, reference;
};

/* The first coded slice: 0 where there is none. */
static uint8_t slice_header(const uint8_t *data, size_t bytes)
{
	for (size_t i = 0; i + 3 < bytes; i++)
		if (!data[i] && !data[i + 1] && data[i + 2] == 1 && ((data[i + 3] & 31) == 1 || (data[i + 3] & 31) == 5))
			return data[i + 3];
	return 0;
}

/* By H.264's own marks: an instantaneous decoder refresh, another picture that is kept as a reference, one that is not. */
static enum kind kind_of(const AVPacket *packet)
{
	const uint8_t header = slice_header(packet->data, (size_t)packet->size);

	if ((header & 31) == 5)
		return KIND_I;
	return header >> 5 & 3 ? KIND_P : KIND_B;
}

static const char *open_file(struct film *film, const char *path)
{
	static char reason[128];
	const AVStream *stream;
	int error = avformat_open_input(&film->file, path, NULL, NULL);

	if (error >= 0)
		error = avformat_find_stream_info(film->file, NULL);
	if (error < 0) {
		av_strerror(error, reason, sizeof(reason));
		return reason;
	}
	film->stream = av_find_best_stream(film->file, AVMEDIA_TYPE_VIDEO, -1, -1, NULL, 0);
	if (film->stream < 0)
		return "it holds no video";
	stream = film->file->streams[film->stream];
	if (stream->codecpar->codec_id != AV_CODEC_ID_H264)
		return "its video is not H.264";
	if (stream->codecpar->format != AV_PIX_FMT_YUV420P && stream->codecpar->format != AV_PIX_FMT_YUVJ420P)
		return "its pictures are not of the usual kind, 8 bits and 4:2:0";
	if (stream->codecpar->field_order != AV_FIELD_PROGRESSIVE && stream->codecpar->field_order != AV_FIELD_UNKNOWN)
		return "it is interlaced";
	if (stream->avg_frame_rate.num <= 0 || stream->avg_frame_rate.den <= 0)
		return "it does not say how many frames it has a second";
	film->frame_ns = (uint64_t)av_rescale(NS_PER_S, stream->avg_frame_rate.den, stream->avg_frame_rate.num);
	if (av_bsf_alloc(av_bsf_get_by_name("h264_mp4toannexb"), &film->filter) < 0 ||
	    avcodec_parameters_copy(film->filter->par_in, stream->codecpar) < 0)
		return "no memory is left";
	film->filter->time_base_in = stream->time_base;
	if (av_bsf_init(film->filter) < 0)
		return "its head is damaged";
	return NULL;
}

static const char *begin(struct film *film, const char *path)
{
	uint8_t message[64];
	struct film_facts facts;
	const char *reason = open_file(film, path);
	size_t bytes;

	if (reason)
		return reason;
	film->packet = av_packet_alloc();
	if (!film->packet)
		return "no memory is left";
	facts = film_facts(film);
	bytes = write_film(message, &facts);
	return read_film(message + HEADER_BYTES, bytes - HEADER_BYTES, &facts) ? NULL : "its size or its frame rate is beyond what this protocol knows";
}

void film_check(const char *path)
{
	struct film *film = allocate(sizeof(*film));
	const char *reason = begin(film, path);

	if (reason)
		die(STATUS_FAILED, reason, fix, "cannot stream %s", path);
	film_close(film);
}

struct film *film_open(const char *path, bool loops)
{
	struct film *film = allocate(sizeof(*film));

	film->loops = loops;
	if (!begin(film, path))
		return film;
	film_close(film);
	return NULL;
}

void film_close(struct film *film)
{
	if (!film)
		return;
	window_free(&film->next);
	av_packet_free(&film->packet);
	av_bsf_free(&film->filter);
	avformat_close_input(&film->file);
	free(film);
}

struct film_facts film_facts(const struct film *film)
{
	const AVCodecParameters *video = film->file->streams[film->stream]->codecpar;

	return (struct film_facts){ .width = (uint32_t)video->width, .height = (uint32_t)video->height, .frame_ns = film->frame_ns };
}

static bool read_file(struct film *film)
{
	while (av_read_frame(film->file, film->packet) >= 0) {
		if (film->packet->stream_index == film->stream && film->packet->size > 0)
			return true;
		av_packet_unref(film->packet);
	}
	return false;
}

/* The next packet with start codes. */
static bool read_packet(struct film *film)
{
	for (;;) {
		const int error = av_bsf_receive_packet(film->filter, film->packet);

		if (!error)
			return true;
		if (error != AVERROR(EAGAIN))
			return false;
		if (!read_file(film))
			return false;
		if (av_bsf_send_packet(film->filter, film->packet) < 0)
			av_packet_unref(film->packet);
	}
}

static bool rewind_film(struct film *film)
{
	if (!film->loops || film->last_end_ns == film->loop_ns || av_seek_frame(film->file, film->stream, 0, AVSEEK_FLAG_BACKWARD) < 0)
		return false;
	av_bsf_flush(film->filter);
	film->loop_ns = film->last_end_ns;
	return read_packet(film);
}

/* Has film->packet hold the next one. */
static bool look_ahead(struct film *film)
{
	if (film->has_packet)
		return true;
	if (film->has_ended)
		return false;
	film->has_packet = read_packet(film) || rewind_film(film);
	film->has_ended = !film->has_packet;
	return film->has_packet;
}

static uint64_t shown_ns(struct film *film)
{
	const AVPacket *packet = film->packet;
	const int64_t stamp = packet->pts != AV_NOPTS_VALUE ? packet->pts : packet->dts != AV_NOPTS_VALUE ? packet->dts : 0;
	int64_t ns;

	if (!film->has_begun)
		film->first = stamp;
	film->has_begun = true;
	ns = av_rescale_q(stamp - film->first, film->file->streams[film->stream]->time_base, (AVRational){ 1, NS_PER_S });
	return film->loop_ns + (ns > 0 ? (uint64_t)ns : 0);
}

/* Would this one begin another window than the one with `count` frames, the last of which is shown at `latest_ns`? */
static bool begins_window(const struct window *window, uint32_t count, uint64_t latest_ns, enum kind kind, uint64_t at_ns)
{
	if (!count)
		return false;
	if (count == MOST_FRAMES || kind == KIND_I)
		return true;
	return kind == KIND_P && at_ns > latest_ns && !(count == 1 && window->frames[0].facts.kind == KIND_I);
}

/* Moves film->packet into the window. */
static void take(struct film *film, struct coded_frame *frame, enum kind kind, uint64_t at_ns)
{
	if (kind == KIND_I) {
		film->group++;
		film->reference = 0;
	} else if (kind == KIND_P) {
		film->reference++;
	}
	frame->facts = (struct frame_facts){
		.window = film->number, .kind = kind, .group = film->group, .reference = film->reference, .shown_ns = at_ns,
	};
	if (at_ns + film->frame_ns > film->last_end_ns)
		film->last_end_ns = at_ns + film->frame_ns;
	frame->bytes = (size_t)film->packet->size;
	frame->data = allocate(frame->bytes);
	memcpy(frame->data, film->packet->data, frame->bytes);
	av_packet_unref(film->packet);
	film->has_packet = false;
}

static int by_time(const void *left, const void *right)
{
	const uint64_t a = ((const struct coded_frame *)left)->facts.shown_ns, b = ((const struct coded_frame *)right)->facts.shown_ns;

	return (a > b) - (a < b);
}

/* Spreads frames that are in the order of showing: number i of the result is the one at the i-th place of van der Corput's sequence. */
static void spread(struct coded_frame *frames, uint32_t count)
{
	struct coded_frame sorted[MOST_FRAMES];
	uint32_t bits = 0, done = 0;

	memcpy(sorted, frames, count * sizeof(*frames));
	while (1u << bits <= count)
		bits++;
	for (uint32_t i = 1; i < 1u << bits; i++) {
		uint32_t place = 0;

		for (uint32_t bit = 0; bit < bits; bit++)
			place |= (i >> bit & 1) << (bits - 1 - bit);
		if (place <= count)
			frames[done++] = sorted[place - 1];
	}
}

static void put_in_order(struct coded_frame *frames, uint32_t count)
{
	uint32_t references = 0, first;

	while (references < count && frames[references].facts.kind != KIND_B)
		references++;
	for (first = references; first < count && frames[first].facts.kind == KIND_B; first++)
		;
	if (first == count && references < count) {
		qsort(frames + references, count - references, sizeof(*frames), by_time);
		spread(frames + references, count - references);
	}
	for (uint32_t i = 0; i < count; i++)
		frames[i].facts.importance = i;
}

static void set_times(struct film *film, struct window *window, uint64_t begin_ns, uint64_t latest_ns)
{
	/* Later than all of the one before, whatever an encoder does. */
	if (film->number && begin_ns <= film->last_shown_ns)
		begin_ns = film->last_shown_ns + 1;
	latest_ns = latest_ns > begin_ns ? latest_ns : begin_ns;
	film->last_shown_ns = latest_ns;
	for (uint32_t i = 0; i < window_frames(&window->facts); i++)
		if (window->frames[i].facts.shown_ns < begin_ns)
			window->frames[i].facts.shown_ns = begin_ns;
	window->facts.begin_ns = begin_ns;
	window->facts.duration_ns = latest_ns - begin_ns + film->frame_ns;
}

/* As if it were the last one. False: there is none. */
static bool cut_window(struct film *film, struct window *window)
{
	uint64_t begin_ns = UINT64_MAX, latest_ns = 0;
	uint32_t count = 0;

	*window = (struct window){ .facts.number = film->number };
	window->frames = allocate(MOST_FRAMES * sizeof(*window->frames));
	while (look_ahead(film)) {
		const enum kind kind = kind_of(film->packet);
		const uint64_t at_ns = shown_ns(film);

		if (film->packet->size > MOST_BYTES - FRAME_HEAD_BYTES) {
			/* What the protocol cannot carry, the viewer goes without. */
			av_packet_unref(film->packet);
			film->has_packet = false;
			continue;
		}
		if (begins_window(window, count, latest_ns, kind, at_ns))
			break;
		take(film, &window->frames[count++], kind, at_ns);
		window->facts.frames[kind]++;
		begin_ns = at_ns < begin_ns ? at_ns : begin_ns;
		latest_ns = at_ns > latest_ns ? at_ns : latest_ns;
	}
	if (!count) {
		free(window->frames);
		window->frames = NULL;
		return false;
	}
	put_in_order(window->frames, count);
	set_times(film, window, begin_ns, latest_ns);
	film->number++;
	return true;
}

/*
 * A window ends one frame's time after its last frame, or where the next one begins: in a film whose frames come at no constant rate that can be
 * sooner. Were it to end later, the next one's first reference would be more important than its own last frames, and decoded before them.
 */
bool film_next(struct film *film, struct window *window)
{
	if (!film->number)
		(void)cut_window(film, &film->next);
	*window = film->next;
	film->next = (struct window){ 0 };
	if (!window->frames)
		return false;
	if (cut_window(film, &film->next) && film->next.facts.begin_ns < window->facts.begin_ns + window->facts.duration_ns)
		window->facts.duration_ns = film->next.facts.begin_ns - window->facts.begin_ns;
	return true;
}

void window_free(struct window *window)
{
	for (uint32_t i = 0; window->frames && i < window_frames(&window->facts); i++)
		free(window->frames[i].data);
	free(window->frames);
	window->frames = NULL;
}
