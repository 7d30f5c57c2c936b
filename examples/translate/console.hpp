#pragma once

#include <string>
#include <vector>

namespace translate {

/// Makes the standard streams what the commands take them for, and gives the words of the command line after the program's name,
/// in UTF-8.
std::vector<std::string> begin_program(int argc, char** argv);
/// A writer whose reader goes away gets an error instead of ending.
void outlive_readers();
/// Whether somebody types the input and sees the output.
bool is_conversation();
/// The most memory that this process has had, in bytes.
double peak_memory();

}  // namespace translate
