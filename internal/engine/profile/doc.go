// Package profile reads TuneD's profile language: it finds profiles, parses
// them, follows includes, merges units and expands variables and built-in
// functions, and it answers which profile is recommended for a machine. A
// loaded profile is a specification; what its units mean on a machine is the
// business of the plug-ins.
package profile
