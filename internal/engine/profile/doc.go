// Package profile reads TuneD's profile language. It finds and parses profiles, follows includes,
// merges units, expands variables and built-in functions, and recommends a profile for a machine.
// A loaded profile is a specification; plug-ins turn its units into changes for a machine.
package profile
