#include "everything.h"

int main(void) {
    return everything();
}
