/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * mpeg2: a video encoder of MPEG-2's kind - motion search, cosine transform, quantisation, run-level codes - on a
 * film that it draws itself. The loops over rows of macroblocks are shared statically; what a row costs is in
 * the picture: the still sky above is cheap, moving ground is not.
 */
#include "../common/example.h"
#include "encoder.h"

#include <math.h>
#include <stdio.h>

enum { WIDTH = 704, HEIGHT = 576, QUANTISER = 8 };

/* FNV-1a of the stream. The encoder computes with integers only, so every machine writes these bits. */
static const struct golden {
    int pictures;
    uint64_t digest;
} golden[] = {{4, 0x53680019f4b24811}, {48, 0xd53ae6254fac6313}};

/* Peak signal-to-noise ratio of brightness over the whole film, dB. */
static double quality(const struct encoder *e) {
    uint64_t error = 0;
    for (int i = 0; i < e->sequence.pictures; i++)
        error += frame_error(&e->source[i], &e->rebuilt[i]);
    double mean = (double)error / ((double)WIDTH * HEIGHT * e->sequence.pictures);
    return 10 * log10(255.0 * 255.0 / (mean + 1e-9));
}

static bool write_file(const char *path, const struct bit_writer *stream) {
    FILE *file = fopen(path, "wb");
    bool good = file && fwrite(stream->data, 1, stream->bytes, file) == stream->bytes;
    if (file && fclose(file) != 0)
        good = false;
    if (!good)
        perror(path);
    return good;
}

static bool verify(const struct encoder *e) {
    int picture;
    const char *wrong = stream_verify(e->stream.data, e->stream.bytes, e, &picture);
    if (wrong)
        fprintf(stderr, "mpeg2: error: decoding picture %d of %d found %s\n", picture, e->sequence.pictures, wrong);
    else
        printf("verified: %d pictures decoded to the same bits\n", e->sequence.pictures);
    return !wrong;
}

static bool check(const struct encoder *e, uint64_t digest, double decibels) {
    bool good = decibels > 30;
    if (!good)
        fprintf(stderr, "mpeg2: error: signal-to-noise ratio %.2f dB, needed > 30\n", decibels);
    for (size_t i = 0; i < sizeof golden / sizeof golden[0]; i++) {
        if (golden[i].pictures != e->sequence.pictures || golden[i].digest == digest)
            continue;
        fprintf(stderr, "mpeg2: error: digest %016llx, needed %016llx\n", (unsigned long long)digest,
                (unsigned long long)golden[i].digest);
        good = false;
    }
    return good;
}

int main(int argc, char **argv) {
    bool verify_wanted = false;
    const char *output = NULL;
    const struct example_flag flags[] = {
        {"--verify", NULL, "decode the stream and compare with what the encoder saw", &verify_wanted, NULL},
        {"-o", "FILE", "write the stream (its syntax: mpeg2/syntax.h)", NULL, &output},
        {0},
    };
    struct example ex = {
        .name = "mpeg2",
        .about = "encode a film as MPEG-2 does",
        .size_help = "pictures",
        .size = 48,
        .size_max = 5000,
        .flags = flags,
    };
    example_parse(&ex, argc, argv);
    struct encoder *e = encoder_make(WIDTH, HEIGHT, ex.size, QUANTISER);
    printf("mpeg2: %d pictures of %d x %d, %d slices each, %d threads\n", ex.size, WIDTH, HEIGHT, e->sequence.rows,
           ex.threads);

    double cpu = example_cpu_seconds(), start = example_seconds();
    team_run("mpeg2", ex.threads, ex.pin, encoder_run, e);
    double elapsed = example_seconds() - start;
    cpu = example_cpu_seconds() - cpu;

    double decibels = quality(e);
    uint64_t digest = example_digest(EXAMPLE_DIGEST_START, e->stream.data, e->stream.bytes);
    printf("stream_bytes: %zu (%.1f : 1)\npsnr_db: %.2f\ndigest: %016llx\n", e->stream.bytes,
           (double)WIDTH * HEIGHT * 1.5 * ex.size / (double)e->stream.bytes, decibels, (unsigned long long)digest);
    printf("cpu_s: %.6f\nelapsed_s: %.6f\n", cpu, elapsed);
    bool good = !output || write_file(output, &e->stream);
    if (verify_wanted || ex.check)
        good &= verify(e);
    if (ex.check)
        good &= check(e, digest, decibels);
    encoder_free(e);
    return good ? 0 : 1;
}
