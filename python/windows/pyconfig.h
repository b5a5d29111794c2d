/* What the headers of Python ask about Windows, as far as its limited interface needs it: scripts/wheels --windows takes all others from
 * this machine's Python. */
#define MS_WINDOWS        1
#define MS_WIN64          1
#define HAVE_DECLSPEC_DLL 1
#define Py_ENABLE_SHARED  1
#define HAVE_SSIZE_T      1
#define SIZEOF_LONG       4
#define SIZEOF_LONG_LONG  8
#define SIZEOF_SIZE_T     8
#define SIZEOF_TIME_T     8
#define SIZEOF_VOID_P     8
#define SIZEOF_WCHAR_T    2
