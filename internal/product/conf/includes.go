package conf

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/host"
)

// Includes follows files that include each other. It limits depth, number and size, because a
// copied tree may contain anything. A file may be read more than once, as products do, but it must
// not include itself.
type Includes struct {
	From host.Files
	// Depth limits the nesting of files and of directories that are read whole. Most limits the
	// number of files.
	Depth, Most int
	// Read lists the files that were read, in order, the main one first.
	Read []string

	open []string
	size int
}

// File reads a file and calls use with its text. Files that use reads count as nested in this one.
func (i *Includes) File(name string, use func(text string) error) error {
	if err := i.enter(name); err != nil {
		return err
	}
	defer i.leave()
	if len(i.Read) >= i.Most {
		return fmt.Errorf("%s: more than %d files", name, i.Most)
	}
	text, err := i.From.ReadFile(name)
	if err != nil {
		return err
	}
	if i.size += len(text); i.size > host.MaxFileSize {
		return fmt.Errorf("%s: total size of all files: %w", name, host.ErrTooLarge)
	}
	i.Read = append(i.Read, name)
	return use(string(text))
}

// Dir lists a directory and calls use with the paths in byte order. Files that use reads count as
// nested in it.
func (i *Includes) Dir(name string, use func(paths []string) error) error {
	if err := i.enter(name); err != nil {
		return err
	}
	defer i.leave()
	entries, err := i.From.ReadDir(name)
	if err != nil {
		return err
	}
	paths := make([]string, len(entries))
	for n, e := range entries {
		paths[n] = path.Join(name, e.Name())
	}
	slices.Sort(paths)
	return use(paths)
}

func (i *Includes) enter(name string) error {
	switch {
	case slices.Contains(i.open, name):
		return fmt.Errorf("%s includes itself: %s > %s", name, strings.Join(i.open, " > "), name)
	case len(i.open) >= i.Depth:
		return fmt.Errorf("%s: the files include each other more than %d deep: %s", name, i.Depth, strings.Join(i.open, " > "))
	}
	i.open = append(i.open, name)
	return nil
}

func (i *Includes) leave() { i.open = i.open[:len(i.open)-1] }
