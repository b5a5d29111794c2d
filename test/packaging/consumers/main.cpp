#include "everything.h"

int main() {
    return everything();
}
