/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Exceptions that are thrown and caught within regions and tasks, with objects that are copied for tasks. */
#include <cstdio>
#include <stdexcept>
#include <string>

int main() {
    long threads = 0, tasks = 0, caught = 0;
#pragma omp parallel num_threads(3) reduction(+ : threads, caught)
    {
        threads++;
        try {
            throw std::runtime_error("region");
        } catch (const std::exception &) {
            caught++;
        }
#pragma omp single
        for (int i = 0; i < 20; i++) {
            std::string text(static_cast<size_t>(100 + i), 'x');
#pragma omp task firstprivate(text) shared(tasks)
            {
                try {
                    throw text;
                } catch (const std::string &is) {
#pragma omp atomic
                    tasks += is.size() >= 100;
                }
            }
        }
    }
    std::printf("%ld\n= begin parallel %ld\n= create task %ld\n= end %ld\n", caught, threads, tasks, tasks);
    return 0;
}
