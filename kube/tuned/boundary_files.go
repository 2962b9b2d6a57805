package tuned

import (
	"path"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/engine/profile"
)

// readsElsewhere is true for a line of [variables] that reads a file which is not meant
// for profiles: what it holds would be readable by all who may read a Profile object.
// The directories are those of every node: which ones a node's own configuration adds,
// only the node knows. Links in them are the node's. A reference is not expanded
// here, by TuneD neither, but for the directory of the profile itself, where a text of
// the cluster has no second file.
func readsElsewhere(l profile.Line) bool {
	if l.Name != "include" {
		return false
	}
	file := path.Clean("/" + l.Value)
	return !slices.ContainsFunc(profile.DefaultDirs, func(dir string) bool { return strings.HasPrefix(file, dir+"/") })
}
