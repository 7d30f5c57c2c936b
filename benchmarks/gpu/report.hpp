#pragma once

#include <cmath>
#include <iostream>
#include <sstream>
#include <string>

/// What the program prints: a JSON object a line, put together by hand, because the program needs no other library.
namespace gpu {

class Line {
 public:
  Line() { text_.precision(9); }

  /// `value` holds no character that JSON would want escaped.
  Line& add(const char* name, const std::string& value) {
    begin(name) << '"' << value << '"';
    return *this;
  }
  Line& add(const char* name, double value) {
    if (std::isfinite(value)) begin(name) << value;
    else begin(name) << "null";
    return *this;
  }
  void print() const { std::cout << '{' << text_.str() << '}' << std::endl; }

 private:
  std::ostream& begin(const char* name) {
    if (text_.tellp() > 0) text_ << ", ";
    return text_ << '"' << name << "\": ";
  }
  std::ostringstream text_;
};

/// Says that it is ready, then measures once for every line that comes in.
template <class F>
void serve(const Line& ready, F&& measure) {
  ready.print();
  for (std::string line; std::getline(std::cin, line);) measure().print();
}

}  // namespace gpu
