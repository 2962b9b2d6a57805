// Package update keeps rules and profiles that are newer than the program's. Its input is a ZIP
// file with a signature. Its output is rule files and a file system of profiles, which replace the
// program's files of the same names. An update is staged first, and applies once it is released.
//
// The state directory has update/staged.zip and update/released.zip. Each step is one rename, so a
// crash leaves either the old update in force or the new one.
package update
