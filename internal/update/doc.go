// Package update keeps rules and profiles that are newer than those of the program. In comes a
// ZIP file with its signature; out come rule files and a file system of profiles, which replace
// those of the same names in the program. An update is staged first, and applies once it is released.
//
// The state directory has update/staged.zip and update/released.zip. Each step is one rename, so a
// crash leaves either the old update in force or the new one.
package update
