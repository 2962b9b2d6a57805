package loadcli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"fettle.dev/fettle/internal/requests/load/engine"
	"fettle.dev/fettle/internal/requests/load/scenario"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/scenarios"
)

// ScenarioDir is the directory of created objects in the state directory.
const ScenarioDir = "scenarios"

// Head returns the first line of the journal of a run.
func (o *Scenario) Head(p *scenario.Plan, file string) scenario.Head {
	name, text, _, _ := scenarioText(file) // read before
	h := scenario.Head{Began: time.Now(), File: name, Text: text, Options: p.Options, Allow: o.Allow, Identity: o.Files, PassFile: absolute(o.PassFile), PassEnv: o.PassEnv}
	h.HostCerts = absolute(h.HostCerts)
	if strings.ContainsRune(file, '/') {
		h.Dir = absolute(filepath.Dir(file))
	} else {
		h.Dir = absolute(".")
	}
	for _, name := range []*string{&h.Identity.Cert, &h.Identity.Key, &h.Identity.CA, &h.Identity.PKCS12, &h.Identity.PuppetSSLDir} {
		*name = absolute(*name)
	}
	return h
}

// absolute returns an absolute file name, or "" for "".
func absolute(name string) string {
	if name == "" {
		return ""
	}
	at, err := filepath.Abs(name)
	if err != nil {
		return name
	}
	return at
}

// OpenObjects opens the recorded objects of a run, or of the last one that has any.
func (o *Scenario) OpenObjects(dir, run string) (*scenario.Journal, *scenario.Objects, error) {
	j, objects, err := scenario.Open(dir, run)
	undo := o.Program + " load scenario undo"
	var busy *scenario.BusyError
	switch {
	case errors.Is(err, fs.ErrNotExist) && run == "":
		err = ui.Hinted(ui.Failed, fmt.Errorf("%s: no run has objects to remove", dir), undo+" --state-dir DIR looks in another state directory")
	case errors.Is(err, fs.ErrNotExist):
		err = ui.Hinted(ui.Usage, fmt.Errorf("%s: no objects of a run %q", dir, run), "without RUN, "+undo+" takes the last run with objects")
	case errors.As(err, &busy):
		err = ui.Retry(ui.Busy, err, "end it with Ctrl-C or wait for its end")
	case errors.Is(err, fs.ErrPermission):
		err = ui.AsRoot(err, "")
	}
	return j, objects, err
}

// Undone returns the error of an undo, or of objects that it left. again is the command that
// tries again.
func Undone(undone *scenario.Undone, err error, interrupted bool, again string) error {
	switch {
	case err != nil && interrupted:
		return ui.Exit(ui.Interrupted, errors.New("interrupted: the removed objects are recorded; run it again to go on"))
	case err != nil:
		return err
	case undone.Left() > 0:
		return ui.Hinted(ui.Partial, fmt.Errorf("%s of run %s may still exist", internaltext.Count(undone.Left(), "object"), undone.Run), "the table says why; "+again+" tries again")
	}
	return nil
}

// UndoJob returns the job with which the recorded objects are removed.
func (o *Scenario) UndoJob(x *scenario.Objects) (*scenario.Job, error) {
	j := &scenario.Job{File: x.File, Text: x.Text, Options: x.Options, Allow: x.Allow, Identity: x.Identity, Files: map[string][]byte{}, Env: map[string]string{}}
	if o.Files != (engine.Files{}) {
		j.Identity = o.Files
	} else {
		o.Files, o.PassFile, o.PassEnv = x.Identity, x.PassFile, x.PassEnv
	}
	if err := o.identities(j); err != nil {
		return nil, err
	}
	j.HostNames = x.HostNames
	read := func(name string) ([]byte, error) {
		text, err := scenarios.FS.ReadFile(name) // undo sends no body: whose file it is does not matter
		if err != nil {
			at := name
			if !filepath.IsAbs(name) {
				at = filepath.Join(x.Dir, name)
			}
			text, err = ReadFile(at)
		}
		if err == nil {
			j.Files[name] = text
		}
		return text, err
	}
	s, err := scenario.Parse(x.File, x.Text, read, func(name string) (string, bool) {
		value, ok := os.LookupEnv(name)
		if ok {
			j.Env[name] = value
		}
		return value, ok
	})
	if err != nil {
		return nil, err
	}
	for _, name := range append(s.CertFiles(j.Options), x.CertFilesOf()...) {
		if _, err := read(name); err != nil {
			return nil, err
		}
	}
	return j, nil
}
