package disk

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/host"
	internaltext "fettle.dev/fettle/internal/text"
)

// maxAge is the maximum age of a benchmark that counts.
const maxAge = 90 * 24 * time.Hour

// record is the result of one test in one directory of a run.
type record struct {
	run    *evidence.Run
	file   string
	place  *Place
	result Result
}

// text names the run and its age.
func (r *record) text(now time.Time) string {
	return fmt.Sprintf("run %s, %s", r.run.ID[:min(12, len(r.run.ID))], days(int(now.Sub(r.run.Began).Hours()/24)))
}

// benchmark is a run that measured disks.
type benchmark struct {
	run  *evidence.Run
	file string
	body Evidence
}

// runs reads the disk benchmarks in the state directory, newest first. unread is the reason why
// the directory cannot be read, or "".
func runs(s *platform.Subject) (all []benchmark, unread string) {
	dir := s.RunsDir
	entries, err := s.Host.Files.ReadDir(dir)
	if err != nil {
		return nil, host.Why(dir, err)
	}
	for _, e := range entries {
		if path.Ext(e.Name()) != ".json" || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		file := path.Join(dir, e.Name())
		text, err := s.Host.Files.ReadFile(file)
		if err != nil || !bytes.Contains(text[:min(len(text), 4096)], []byte(`"`+Kind+`"`)) {
			continue
		}
		b := benchmark{file: file}
		if b.run, err = evidence.Read(text); err != nil || b.run.Kind != Kind {
			continue // damaged or changed
		}
		if json.Unmarshal(b.run.Body, &b.body) == nil {
			all = append(all, b)
		}
	}
	slices.SortFunc(all, func(a, b benchmark) int { return b.run.Began.Compare(a.run.Began) })
	return all, ""
}

// newest returns the newest valid record of a test on a place's storage. If none exists, it
// returns nil and the reason.
func newest(s *platform.Subject, all []benchmark, p *dataStorage, cell string) (*record, string) {
	if p.storage.Mount == "" {
		return nil, "the storage of " + p.dir + " is unknown"
	}
	why := p.dir + " was not measured"
	first := true
	for _, b := range all {
		for i := range b.body.Places {
			m := &b.body.Places[i]
			j := slices.IndexFunc(m.Results, func(r Result) bool { return r.Name == cell })
			if j < 0 || !same(m.Storage, p.storage) {
				continue
			}
			r := &record{run: b.run, file: b.file, place: &m.Place, result: m.Results[j]}
			wrong := r.invalid(s, p.storage)
			if wrong == "" {
				return r, ""
			}
			if first {
				why, first = r.text(s.Host.Clock.Now())+": "+wrong, false
			}
		}
	}
	return nil, why
}

// same reports whether both are the same file system on the same device.
func same(a, b fact.Storage) bool {
	if a.Type != b.Type || a.Source != b.Source || a.Device != b.Device {
		return false
	}
	return a.Device != "" || a.Mount == b.Mount
}

// invalid returns the reason why a record does not describe the current machine, or "".
func (r *record) invalid(s *platform.Subject, now fact.Storage) string {
	age := s.Host.Clock.Now().Sub(r.run.Began)
	switch d := r.result.Doubtful(); {
	case d != nil:
		return "marked " + string(d.Kind) + ", " + d.Text
	case age < 0:
		return "dated in the future: one of the clocks was wrong"
	case age > maxAge:
		return internaltext.Sprintf("older than %d days", int(maxAge.Hours()/24))
	}
	kernel, ok := s.Facts().Lookup("kernel.release")
	if is, _ := kernel.Value.(string); !ok || is == "" || is != r.run.Machine.Kernel {
		return fmt.Sprintf("made with kernel %s; the running kernel is %s", cmp.Or(r.run.Machine.Kernel, "unknown"), cmp.Or(is, "unknown"))
	}
	if what := changed(r.place.Storage, now); what != "" {
		return "the storage has changed since: " + what
	}
	return r.retuned(s, now)
}

// changed describes the difference between the devices of two storages, or returns "".
func changed(was, is fact.Storage) string {
	if len(was.Layers) != len(is.Layers) {
		return internaltext.Sprintf("%s, was %d", internaltext.Count(len(is.Layers), "device"), len(was.Layers))
	}
	for i, a := range was.Layers {
		b := is.Layers[i]
		switch {
		case a.Device != b.Device:
			return b.Device + " instead of " + a.Device
		case a.Transport != b.Transport || a.Kind != b.Kind || a.Model != b.Model:
			return a.Device + " was " + strings.Join(strings.Fields(a.Transport+" "+a.Kind+" "+a.Model), " ")
		case a.SizeBytes != 0 && a.SizeBytes != b.SizeBytes:
			return a.Device + " had another size"
		}
	}
	return ""
}

// retuned describes a queue setting of the devices that changed after the record and makes it
// invalid, or returns "".
func (r *record) retuned(s *platform.Subject, now fact.Storage) string {
	for _, l := range now.Layers {
		prefix := "sysfs:/sys/block/" + l.Device + "/queue/"
		for _, name := range slices.Sorted(maps.Keys(r.run.Machine.Settings)) {
			if !strings.HasPrefix(name, prefix) {
				continue
			}
			was := r.run.Machine.Settings[name]
			file := strings.TrimPrefix(name, "sysfs:")
			text, err := s.Host.Files.ReadFile(file)
			if err != nil {
				return file + " cannot be read, so the storage may have changed"
			}
			if is := strings.Join(strings.Fields(string(text)), " "); is != was {
				return fmt.Sprintf("%s was %s, is now %s", file, was, is)
			}
		}
	}
	return ""
}
