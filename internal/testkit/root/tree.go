package root

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
)

// Tree contains the content of every regular file below a directory, and the target of every
// symbolic link as "-> target", by path from the directory ("/sys/...").
type Tree map[string]string

// ReadTree reads a tree of plain files, such as a Machine's.
func ReadTree(dir string) (Tree, error) {
	tree := Tree{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name := p[len(dir):]
		if d.Type()&fs.ModeSymlink != 0 {
			target, err := os.Readlink(p)
			tree[name] = "-> " + target
			return err
		}
		if !d.Type().IsRegular() {
			return nil
		}
		data, err := os.ReadFile(p)
		tree[name] = string(data)
		return err
	})
	return tree, err
}

// Difference is one file that differs between two trees.
type Difference struct {
	Path          string
	Before, After string
	// Made and Gone report that the file is only in the second or first tree.
	Made, Gone bool
}

func (d Difference) String() string {
	switch {
	case d.Made:
		return fmt.Sprintf("%s: made, %q", d.Path, d.After)
	case d.Gone:
		return fmt.Sprintf("%s: gone, was %q", d.Path, d.Before)
	}
	return fmt.Sprintf("%s: %q -> %q", d.Path, d.Before, d.After)
}

// Diff compares two trees byte by byte and returns the differences, sorted by path.
func (before Tree) Diff(after Tree) []Difference {
	var diff []Difference
	for name, was := range before {
		is, ok := after[name]
		if !ok {
			diff = append(diff, Difference{Path: name, Before: was, Gone: true})
		} else if is != was {
			diff = append(diff, Difference{Path: name, Before: was, After: is})
		}
	}
	for name, is := range after {
		if _, ok := before[name]; !ok {
			diff = append(diff, Difference{Path: name, After: is, Made: true})
		}
	}
	sort.Slice(diff, func(i, j int) bool { return diff[i].Path < diff[j].Path })
	return diff
}
