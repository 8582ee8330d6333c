// The request log: JSON lines of ids, counts and times (serving.md S13.3).
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "base/json/json.h"
#include "server/observe/request_record.h"

namespace flare::server::observe {

// Any thread. Lines wait in a bounded queue for a thread of their own, so that a slow disk holds up
// no answer; what does not fit is dropped, counted, and said in the file.
class RequestLog {
 public:
  // Appends; a new file is readable by its owner alone. Errors: kWrite.
  explicit RequestLog(std::string path);
  // Writes what waits.
  ~RequestLog();
  RequestLog(const RequestLog&) = delete;
  RequestLog& operator=(const RequestLog&) = delete;

  void request_start(const RequestRecord& record);
  void request_done(const RequestRecord& record);
  void request_rejected(const RequestRecord& record);
  // server_start, throughput, server_stop. `members` follow `v`, `time` and `event`.
  void write(std::string_view event, Json members);
  // Behind a SIGHUP: opens the path again, once what waits is written; where that fails the old
  // file stays and the log says so.
  void reopen();
  uint64_t dropped() const;

 private:
  void enqueue(std::string line);
  void run();
  void write_out(const std::string& lines);
  int open_file() const;

  const std::string path_;
  int fd_ = -1;  // of the thread
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::string waiting_;  // guarded by mutex_, as the following
  uint64_t dropped_ = 0, dropped_unsaid_ = 0;
  bool reopen_ = false, quit_ = false;
  std::thread thread_;
};

}  // namespace flare::server::observe
