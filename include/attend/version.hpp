#pragma once

/// The version of the library, in the sense of semver.org; before 1.0 a minor version may break programs. The build, the packages
/// and `translate --version` take it from these three lines.

#define ATTEND_VERSION_MAJOR 0
#define ATTEND_VERSION_MINOR 1
#define ATTEND_VERSION_PATCH 0

#define ATTEND_QUOTED(major, minor, patch) #major "." #minor "." #patch
#define ATTEND_EXPANDED(major, minor, patch) ATTEND_QUOTED(major, minor, patch)

namespace attend {

/// "major.minor.patch"
inline constexpr char version[] = ATTEND_EXPANDED(ATTEND_VERSION_MAJOR, ATTEND_VERSION_MINOR, ATTEND_VERSION_PATCH);

}  // namespace attend

#undef ATTEND_EXPANDED
#undef ATTEND_QUOTED
