package eject

import (
	"context"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"fettle.dev/fettle/internal/engine/override"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// losers reads the machine's files together with the files of r, as a boot would, and returns the
// values that another file sets after them. The notes name files that may do so.
func (b *builder) losers(ctx context.Context, r *Result) (losers []Refused, notes []string) {
	if len(r.Files) == 0 {
		return nil, nil
	}
	h := *b.host
	over := overlay{Files: b.host.Files, files: map[string]string{}}
	for _, f := range r.Files {
		over.files[f.Path] = f.Content
	}
	h.Files = over
	claims, _ := override.Read(ctx, &h, b.kinds)
	for _, v := range r.Values {
		for _, p := range parameters(v) {
			if c, ok := lastOther(claims.For(p.setting), over); ok && !b.kinds.Equal(p.setting, c.Value, p.want) {
				losers = append(losers, Refused{v.Setting, v.Want, c.Place() + " sets " + p.setting.Name + " to " + showValue(c.Value) + " later"})
				break
			}
		}
		if !claimable(v.Setting) {
			continue
		}
		all := claims.For(v.Setting)
		ours, later := false, []override.Claim{}
		void := ""
		for _, c := range all {
			_, own := over.files[c.File]
			switch {
			case own && c.Void == "":
				ours, later = true, nil
			case own:
				void = c.Void
			case c.Void == "" && !b.kinds.Equal(v.Setting, c.Value, v.Want):
				later = append(later, c)
			}
		}
		certain := slices.IndexFunc(later, override.Claim.Certain)
		switch {
		case ours && certain >= 0:
			losers = append(losers, Refused{v.Setting, v.Want, later[certain].Place() + " sets " + showValue(later[certain].Value) + " later"})
		case !ours && void != "" && v.files():
			losers = append(losers, Refused{v.Setting, v.Want, void})
		case len(later) > 0:
			notes = append(notes, v.Setting.Name+": "+later[len(later)-1].Place()+" sets "+showValue(later[len(later)-1].Value)+" if "+later[len(later)-1].Condition)
		}
	}
	if unread := claims.Unread(); len(unread) > 0 {
		notes = append(notes, unread[0].File+" could not be read; a line there may win")
	}
	return losers, notes
}

// parameter is a module's parameter that a line of modprobe.d sets.
type parameter struct {
	setting setting.Setting
	want    setting.Value
}

// parameters returns the parameters in the options of a module.
func parameters(v Value) (out []parameter) {
	if v.Setting.Kind != "modprobe" {
		return nil
	}
	for _, option := range strings.Fields(strings.TrimPrefix(v.Want.Text, "+r")) {
		name, value, assigned := strings.Cut(option, "=")
		if !assigned {
			value = "1"
		}
		file := "/sys/module/" + strings.ReplaceAll(v.Setting.Name, "-", "_") + "/parameters/" + strings.ReplaceAll(name, "-", "_")
		out = append(out, parameter{setting.Setting{Kind: "sysfs", Name: file}, setting.Text(strings.Trim(value, `"`))})
	}
	return out
}

// lastOther returns the line of another program's modprobe.d that comes after those of the new file.
func lastOther(claims []override.Claim, over overlay) (last override.Claim, ok bool) {
	for _, c := range claims {
		if c.Source != override.Modprobe || c.Void != "" {
			continue
		}
		_, own := over.files[c.File]
		last, ok = c, !own
	}
	return last, ok
}

// claimable reports whether files of other programs can set a setting of this kind.
func claimable(s setting.Setting) bool { return s.Kind == "sysctl" || s.Kind == "sysfs" }

// files reports whether a file with a line for this value keeps it.
func (v *Value) files() bool {
	return slices.ContainsFunc(v.By, func(by string) bool { return strings.HasPrefix(by, "/etc/") && by != modulesFile && by != tmpfilesUnit })
}

// overlay is a machine's files with additional ones. It serves reading only.
type overlay struct {
	host.Files
	files map[string]string // content by path
}

func (o overlay) ReadFile(p string) ([]byte, error) {
	if text, ok := o.files[p]; ok {
		return []byte(text), nil
	}
	return o.Files.ReadFile(p)
}

func (o overlay) ReadDir(dir string) ([]fs.DirEntry, error) {
	entries, err := o.Files.ReadDir(dir)
	var own []fs.DirEntry
	for p := range o.files {
		if path.Dir(p) == dir {
			own = append(own, fs.FileInfoToDirEntry(info{p, len(o.files[p])}))
		}
	}
	if len(own) == 0 || err != nil && !host.NotFound(err) {
		return entries, err
	}
	entries = slices.DeleteFunc(slices.Clone(entries), func(e fs.DirEntry) bool {
		_, replaced := o.files[path.Join(dir, e.Name())]
		return replaced
	})
	entries = append(entries, own...)
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}

func (o overlay) Lstat(p string) (fs.FileInfo, error) {
	if text, ok := o.files[p]; ok {
		return info{p, len(text)}, nil
	}
	return o.Files.Lstat(p)
}

func (o overlay) Stat(p string) (fs.FileInfo, error) {
	if text, ok := o.files[p]; ok {
		return info{p, len(text)}, nil
	}
	return o.Files.Stat(p)
}

func (o overlay) Readlink(p string) (string, error) {
	if _, ok := o.files[p]; ok {
		return "", &fs.PathError{Op: "readlink", Path: p, Err: syscall.EINVAL}
	}
	return o.Files.Readlink(p)
}

func (o overlay) Resolve(p string) (string, error) {
	if _, ok := o.files[p]; ok {
		return p, nil
	}
	return o.Files.Resolve(p)
}

// info describes a file of an overlay.
type info struct {
	path string
	size int
}

func (i info) Name() string       { return path.Base(i.path) }
func (i info) Size() int64        { return int64(i.size) }
func (i info) Mode() fs.FileMode  { return 0o644 }
func (i info) ModTime() time.Time { return time.Time{} }
func (i info) IsDir() bool        { return false }
func (i info) Sys() any           { return nil }
