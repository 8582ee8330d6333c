// What every program of ours asks of its process before and after the command.
#pragma once

namespace flare::app {

// Gives closed standard streams a place, so that no file a command opens takes their numbers and
// then receives messages, and turns the signal of the file-size limit into a failed write. A mapped
// file that shrinks while it is read ends the process with its name, the exit code of a damaged
// file, and no temporary file left.
void prepare_process();

// What is done before that end: async-signal-safe. nullptr: nothing.
void set_sudden_exit_action(void (*action)());

// kWrite if part of what was printed to stdout did not get there.
void check_standard_output();

}  // namespace flare::app
