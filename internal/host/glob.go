package host

import (
	"path"
	"sort"
	"strings"
)

// Glob returns the paths that match a pattern, sorted. Each path element is an fnmatch
// pattern (*, ?, [...]). As in Python's fnmatch, wildcards match a leading dot.
func Glob(f Files, pattern string) ([]string, error) {
	if _, err := path.Match(pattern, ""); err != nil {
		return nil, err
	}
	found := []string{"/"}
	for elem := range strings.SplitSeq(strings.TrimPrefix(path.Clean(pattern), "/"), "/") {
		var next []string
		for _, dir := range found {
			if !strings.ContainsAny(elem, `*?[\`) {
				p := path.Join(dir, elem)
				if _, err := f.Lstat(p); err == nil {
					next = append(next, p)
				}
				continue
			}
			entries, err := f.ReadDir(dir)
			if err != nil {
				continue // not a directory, or removed since
			}
			for _, e := range entries {
				if ok, _ := path.Match(elem, e.Name()); ok {
					next = append(next, path.Join(dir, e.Name()))
				}
			}
		}
		found = next
	}
	sort.Strings(found)
	return found, nil
}
