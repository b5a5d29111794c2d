// Several devices in one program: which ones, one thread for each, jobs dealt to them in turn and results back in order.
//
//   sample::Dealer<Frame *> dealer(devices, 2, [&](size_t w) {
//       const auto engine = std::make_shared<Engine>(devices[w]);         // on the worker's thread, like all that follows
//       return [engine](Frame *frame) { engine->run(*frame); };
//   });
//   const auto error = dealer.process(frames, [&](Frame &frame) { return source.read(frame); },
//                                     [&](Frame &frame) { return sink.write(frame); });
//
// Needs no OpenCV.
#pragma once

#include "common/app.hpp"
#include "common/channel.hpp"

#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace sample {

// ---- Which devices -----------------------------------------------------------------------------------------------------

constexpr size_t MAX_DEVICES = 64;

// Whether chooseDevices accepts `text`.
bool isDeviceList(const std::string &text);

// Like chooseDevice, and also "cuda:all", "cuda:0,2" and "cpu:N": N workers that divide the processors among themselves. A
// GPU named twice gets two workers. Throws Stop(DEVICE).
std::vector<Device> chooseDevices(const std::string &text);

// "cuda:0, NVIDIA H200; cuda:1, NVIDIA H200" or "CPU, 16 threads, 4 workers", for the report.
std::string deviceNames(const std::vector<Device> &devices);

// Makes `device`, one of `workers`, the calling thread's current CUDA device, or gives the thread its share of the
// processors.
void enterDevice(const Device &device, size_t workers);

// Throws `error` again. With several devices, errors of the library or a device begin with the device's name.
[[noreturn]] void rethrow(const std::exception_ptr &error, const Device &device, size_t workers);

// ---- One thread a device -----------------------------------------------------------------------------------------------

// Job k goes to worker k % devices.size(), whose thread has entered its device, so a worker may keep state from job to job.
// Every worker has an input queue of `depth` jobs and an output queue. Only those queues have locks.
template<class Job>
class Dealer {
  public:
    using Work = std::function<void(Job &)>;

    // Calls make(w) on the thread of worker w. What it returns is called there with each of the worker's jobs, and
    // destroyed there. Device work may still be queued when the call returns, if whoever takes the job waits for it.
    Dealer(std::vector<Device> devices, size_t depth, std::function<Work(size_t)> make)
        : devices_(std::move(devices)), capacity_(devices_.size() * depth), make_(std::move(make)) {
        for (size_t w = 0; w < devices_.size(); ++w)
            workers_.push_back(std::make_unique<Worker>(depth));
        try {
            for (size_t w = 0; w < devices_.size(); ++w)
                workers_[w]->thread = std::thread([this, w] { serve(w); });
        } catch (...) {
            stop();
            join();
            throw;
        }
    }
    ~Dealer() {
        stop();
        join();
    }
    Dealer(const Dealer &) = delete;
    Dealer &operator=(const Dealer &) = delete;

    // How many jobs can be dealt and not yet taken before deal() may wait, so that one thread can do both.
    size_t capacity() const { return capacity_; }

    // Gives the job to the next worker; waits while its queue is full. Returns false if stopped or if that worker has
    // failed: the job is lost, and next() says why. Called by one thread.
    bool deal(Job job) { return workers_[dealt_++ % workers_.size()]->in.push(std::move(job)); }

    // No more jobs will be dealt. Called by the thread that deals.
    void finish() {
        for (const auto &worker : workers_)
            worker->in.close();
    }

    // Waits for the next result, in the order of dealing. Returns false if there are no more or it was stopped. If a worker
    // fails, all results up to its failure still come, then its error is thrown. Called by one thread.
    bool next(Job &job) {
        Worker &worker = *workers_[taken_ % workers_.size()];
        if (!stopped_ && worker.out.pop(job)) {
            ++taken_;
            return true;
        }
        if (stopped_)
            return false;
        if (worker.error)
            rethrow(worker.error, devices_[taken_ % workers_.size()], workers_.size());
        finish(); // ends the other workers; nobody deals any more, or would wait for a worker that has ended
        join();
        for (size_t w = 0; w < workers_.size(); ++w) // a worker may have failed before its first job
            if (workers_[w]->error)
                rethrow(workers_[w]->error, devices_[w], workers_.size());
        return false;
    }

    // Whether next() would return a result without waiting. Called by its thread.
    bool ready() { return !workers_[taken_ % workers_.size()]->out.empty(); }

    // Drops all jobs and untaken results. Called by any thread.
    void stop() {
        stopped_ = true;
        for (const auto &worker : workers_) {
            worker->in.close();
            worker->out.close();
        }
    }

    // Waits until all workers have ended, after next() has returned false or after stop(). What they have made is then
    // destroyed.
    void join() {
        for (const auto &worker : workers_)
            if (worker->thread.joinable())
                worker->thread.join();
    }

    // The whole loop on one thread: read(job) fills one of `jobs` (false: no more), and take(job) gets the results in order
    // (false: stop). `jobs` are reused pointers, at most capacity() of them. Returns what read() has thrown, so that the
    // output of earlier jobs can be completed first.
    template<class Read, class Take>
    std::exception_ptr process(std::vector<Job> jobs, Read &&read, Take &&take) {
        std::exception_ptr ended_early;
        bool more = true;
        Job job = {};
        for (;;) {
            while (more && !jobs.empty() && !ready()) { // waiting results come first, for cameras
                job = jobs.back();
                try {
                    more = read(*job);
                } catch (...) {
                    ended_early = std::current_exception();
                    more = false;
                }
                if (more)
                    jobs.pop_back();
                more = more && deal(job);
            }
            if (!more)
                finish();
            if (!next(job))
                break;
            if (!take(*job)) {
                stop();
                break;
            }
            jobs.push_back(job);
        }
        join();
        return ended_early;
    }

  private:
    struct Worker {
        explicit Worker(size_t depth) : in(depth), out(depth) {}
        Channel<Job> in, out;
        std::exception_ptr error; // set before `out` is closed
        std::thread thread;
    };

    void serve(size_t w) {
        Worker &worker = *workers_[w];
        try {
            enterDevice(devices_[w], devices_.size());
            const Work work = make_(w);
            Job job;
            while (worker.in.pop(job) && !stopped_) {
                work(job);
                if (!worker.out.push(std::move(job)))
                    break;
            }
        } catch (const Stop &stop) {
            if (stop.code() != INTERRUPTED) // otherwise the jobs end here
                worker.error = std::current_exception();
        } catch (...) {
            worker.error = std::current_exception();
        }
        worker.in.close();
        worker.out.close();
    }

    const std::vector<Device> devices_;
    const size_t capacity_;
    const std::function<Work(size_t)> make_;
    std::vector<std::unique_ptr<Worker>> workers_;
    size_t dealt_ = 0, taken_ = 0;
    std::atomic<bool> stopped_{false};
};

} // namespace sample
