package conf_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product/conf"
	"fettle.dev/fettle/internal/testkit/machine"
)

// Files that name others, a line each, are read in place; what would never end,
// or has grown too large, is refused with the way that led there.
func TestIncludes(t *testing.T) {
	big := strings.Repeat("#", 7<<20)
	h := machine.Mounted(t, map[string]string{
		"/e/main": "/e/a\n/e/b\n/e/a", "/e/a": "/e/c", "/e/b": "/e/d/", "/e/c": "", "/e/d/2": "/e/c", "/e/d/10": "",
		"/e/loop": "/e/loop2", "/e/loop2": "/e/loop",
		"/e/1": "/e/2\n/e/2", "/e/2": "/e/3\n/e/3", "/e/3": "/e/4\n/e/4", "/e/4": "/e/5\n/e/5", "/e/5": "",
		"/e/big": strings.Repeat("/e/big2\n", 10), "/e/big2": big,
	})
	read := func(main string, depth, most int) ([]string, error) {
		i := conf.Includes{From: h.Files, Depth: depth, Most: most}
		var follow func(text string) error
		follow = func(text string) error {
			for name := range strings.FieldsSeq(text) {
				var err error
				switch dir, is := strings.CutSuffix(name, "/"); {
				case strings.HasPrefix(name, "#"):
				case is:
					err = i.Dir(dir, func(paths []string) error {
						for _, p := range paths {
							if err := i.File(p, follow); err != nil {
								return err
							}
						}
						return nil
					})
				default:
					err = i.File(name, follow)
				}
				if err != nil {
					return err
				}
			}
			return nil
		}
		err := i.File(main, follow)
		return i.Read, err
	}
	got, err := read("/e/main", 5, 9)
	if want := []string{"/e/main", "/e/a", "/e/c", "/e/b", "/e/d/10", "/e/d/2", "/e/c", "/e/a", "/e/c"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
	for _, c := range []struct {
		main        string
		depth, most int
		want        string
	}{
		{"/e/main", 5, 8, "/e/c: more than 8 files"},
		{"/e/main", 4, 99, "/e/c: the files include each other more than 4 deep: /e/main > /e/b > /e/d > /e/d/2"},
		{"/e/loop", 9, 99, "/e/loop includes itself: /e/loop > /e/loop2 > /e/loop"},
		{"/e/1", 9, 30, "/e/5: more than 30 files"},
		{"/e/big", 9, 99, "/e/big2: total size of all files: file larger than 16 MiB"},
		{"/e/gone", 9, 99, "no such file"},
	} {
		if _, err := read(c.main, c.depth, c.most); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.main, err, c.want)
		}
	}
	if _, err := read("/e/big", 9, 99); !errors.Is(err, host.ErrTooLarge) {
		t.Error(fmt.Sprint(err))
	}
}
