/* WebAssembly has one thread here: nothing to lock. */
#ifndef CUSI_WEB_PTHREAD_H
#define CUSI_WEB_PTHREAD_H

typedef char pthread_mutex_t;
#define PTHREAD_MUTEX_INITIALIZER          0
#define pthread_mutex_init(mutex, options) ((void)(mutex))
#define pthread_mutex_lock(mutex)          ((void)(mutex))
#define pthread_mutex_unlock(mutex)        ((void)(mutex))
#define pthread_mutex_destroy(mutex)       ((void)(mutex))

#endif
