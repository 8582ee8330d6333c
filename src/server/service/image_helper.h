// Decodes images of requests in processes that can do nothing else (serving.md S12.4). Nothing
// makes one before a model takes images: to others they are refused undecoded (S11.5).
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>

#include "frontend/media/media.h"

namespace flare::server {

// A small process, forked at start, that forks one worker for each image. A worker has one socket
// and no files, no network, no new programs (a seccomp filter ends it at the first other system
// call), and bounds of memory and CPU time. Whatever the decoding libraries do there, the server
// and other requests go on.
class ImageHelper {
 public:
  // Forks, so the calling process must have one thread only; before it knows keys, since workers
  // have a copy of its memory. At most `max_workers` decode at once, others wait; each has
  // `seconds` by the clock. Errors: kInternal (no process, no socket).
  explicit ImageHelper(uint32_t max_workers = 4, unsigned seconds = 20);
  ~ImageHelper();
  ImageHelper(const ImageHelper&) = delete;
  ImageHelper& operator=(const ImageHelper&) = delete;

  // What media::decode_image does, in a worker; from any thread, at once with others. Faults: those
  // of decode_image; kInvalid where the worker died or took too long. Errors: kInternal where the
  // helper is gone or can have no more processes.
  media::Image decode(Bytes file, const media::ImageLimits& limits = {}) const;

  // Empty where workers are confined; else why this system refused, to be said at start.
  const std::string& unconfined_because() const { return unconfined_because_; }

 private:
  media::Image decode_now(Bytes file, const media::ImageLimits& limits) const;
  int control_ = -1;  // sends one end of a socket for each image
  int process_ = -1;
  const unsigned seconds_;
  mutable std::mutex mutex_;
  mutable std::condition_variable freed_;
  mutable uint32_t n_free_;  // guarded by mutex_
  std::string unconfined_because_;
};

}  // namespace flare::server
