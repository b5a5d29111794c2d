/* One object a device, each used from its own thread: finds a square in 60 frames on all GPUs, or on two threads of the CPU if
 * there is none. `many_devices N`: on N threads of the CPU. Frame i goes to device i % count and its result to found[i], so the
 * output is the same for any number of devices. */
#include <cusight/cusight.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 240, COLS = 320, SIDE = 24, FRAMES = 60, MAX_WORKERS = 64 };

typedef struct Worker {
    pthread_t thread;
    int index, count; /* worker `index` of `count`; on the GPU with this index if space is CUS_DEVICE */
    cusSpace space;
    cusMatch *found; /* of all frames; each worker writes its own */
    cusStatus status;
    char message[256];
} Worker;

/* What belongs to one device. */
typedef struct Objects {
    cusStream stream;
    cusMatcher *matcher;
    cusMat image, device_image, square, device_square;
} Objects;

/* Frame i: noise, and in it a square with a pattern. */
static void draw(cusMat *frame, int i) {
    const int left = 5 * i % (COLS - SIDE), top = 3 * i % (ROWS - SIDE);
    for (int y = 0; y < frame->rows; ++y) {
        unsigned char *row = (unsigned char *)frame->data + (size_t)y * frame->step;
        for (int x = 0; x < frame->cols; ++x) {
            const int u = x - left, v = y - top;
            const int inside = u >= 0 && u < SIDE && v >= 0 && v < SIDE;
            row[x] = (unsigned char)(inside ? 10 * u + v * v : (x * 31 + y * 17 + i * 7) % 64);
        }
    }
}

static cusStatus create(const Worker *w, Objects *o) {
    const int on_gpu = w->space == CUS_DEVICE;
    if (on_gpu) {
        CUS_TRY(cusDeviceSet(w->index)); /* of this thread; all that it creates lives there */
        CUS_TRY(cusStreamCreate(&o->stream));
        CUS_TRY(cusMatCreatePinned(&o->image, ROWS, COLS, CUS_8UC1)); /* once: uploads from it are asynchronous */
    } else {
        CUS_TRY(cusMatCreate(&o->image, ROWS, COLS, CUS_8UC1, CUS_HOST));
    }
    draw(&o->image, 0); /* where the square is in the corner */
    CUS_TRY(cusMatRegion(&o->image, 0, 0, SIDE, SIDE, &o->square));
    if (on_gpu)
        CUS_TRY(cusMatUpload(&o->square, &o->device_square, o->stream));
    /* Waits for the stream and copies the square, so the image may change afterwards. */
    return cusMatcherCreate(&o->matcher, on_gpu ? &o->device_square : &o->square, 1, ROWS, COLS, NULL, o->stream);
}

static cusStatus findAll(const Worker *w, Objects *o) {
    CUS_TRY(create(w, o));
    for (int i = w->index; i < FRAMES; i += w->count) {
        int count = 0;
        draw(&o->image, i);
        if (w->space == CUS_DEVICE)
            CUS_TRY(cusMatUpload(&o->image, &o->device_image, o->stream));
        CUS_TRY(cusMatcherRun(o->matcher, w->space == CUS_DEVICE ? &o->device_image : &o->image, NULL, o->stream));
        CUS_TRY(cusMatcherGet(o->matcher, 0, &w->found[i], 1, &count, o->stream)); /* waits for the stream */
    }
    return CUS_OK;
}

static void *work(void *argument) {
    Worker *w = argument;
    Objects o = {NULL, NULL, CUS_MAT_INIT, CUS_MAT_INIT, CUS_MAT_INIT, CUS_MAT_INIT};
    w->status = findAll(w, &o);
    if (w->status != CUS_OK) /* the message is this thread's, so take it along */
        snprintf(w->message, sizeof w->message, "%s", cusLastError());
    if (o.stream)
        (void)cusStreamSynchronize(o.stream);
    cusMatcherDestroy(o.matcher);
    cusMatRelease(&o.square);
    cusMatRelease(&o.device_square);
    cusMatRelease(&o.image);
    cusMatRelease(&o.device_image);
    cusStreamDestroy(o.stream);
    return NULL;
}

int main(int argc, char **argv) {
    static Worker workers[MAX_WORKERS];
    static cusMatch found[FRAMES];
    int gpus = 0, failed = 0, started = 0;
    if (argc < 2 && cusDeviceCount(&gpus) != CUS_OK)
        gpus = 0;
    int count = argc > 1 ? atoi(argv[1]) : gpus > 0 ? gpus : 2;
    count = count < 1 ? 1 : count > MAX_WORKERS ? MAX_WORKERS : count;
    fprintf(stderr, "%d %s\n", count, gpus > 0 ? "GPUs" : "threads of the CPU");
    for (; started < count; ++started) {
        Worker *w = &workers[started];
        w->index = started;
        w->count = count;
        w->space = gpus > 0 ? CUS_DEVICE : CUS_HOST;
        w->found = found;
        if (pthread_create(&w->thread, NULL, work, w) != 0)
            break;
    }
    for (int i = 0; i < started; ++i) {
        pthread_join(workers[i].thread, NULL);
        if (workers[i].status != CUS_OK && !failed++)
            fprintf(stderr, "device %d: %s\n", i, workers[i].message);
    }
    if (failed || started < count)
        return EXIT_FAILURE;
    for (int i = 0; i < FRAMES; ++i)
        printf("frame %d: x %d, y %d\n", i, found[i].x, found[i].y);
    return EXIT_SUCCESS;
}
