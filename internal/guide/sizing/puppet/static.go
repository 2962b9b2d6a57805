package puppet

import (
	_ "embed" // the scripts
	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/guide/sizing"
	"fmt"
	"strings"
)

// Names of the scripts on the machine.
const (
	IDScript      = "usr/local/sbin/puppet-code-id"
	ContentScript = "usr/local/sbin/puppet-code-content"
)

//go:embed code-id.sh
var idScript string

//go:embed code-content.sh
var contentScript string

// staticCatalogs decides whether catalogs should carry the metadata of files.
func (p *plan) staticCatalogs() error {
	files, catalogs := p.log.Of["file_metadata"], p.log.Of["catalog"]
	each := 0.0
	if catalogs.Count > 0 {
		each = float64(files.Count) / float64(catalogs.Count)
	}
	figures := fmt.Sprintf("%d requests for file_metadata, %.1f for each of %d catalogs, took %s, %.1f %% of all time", files.Count, each, catalogs.Count, span(files.Seconds), 100*p.log.share("file_metadata"))
	pays := 100*p.log.share("file_metadata") >= p.figure("share percent") || each >= p.figure("each catalog")
	sources := []rule.Source{staticPages, source003}
	verdict := func(v, why string) { p.add("static catalogs", "verdict", v, "", why, sources...) }
	switch {
	case p.Server.Static && p.Server.Versioned:
		p.static = true
		verdict("in place", "the server can tell the version of its code (P01); "+figures)
		return nil
	case !pays && !p.forced("static"):
		verdict("does not pay", fmt.Sprintf("%s; from %.0f %% of the time, or %.0f for each catalog, it does", figures, p.figure("share percent"), p.figure("each catalog")))
		return nil
	case p.Server.Enterprise:
		verdict("by Code Manager", figures+"; Puppet Enterprise versions its code itself where Code Manager deploys it: turn that on")
		return nil
	case p.Server.Version == "":
		verdict("pays", figures+"; no Puppet Server is here to write files for")
		return nil
	case older(p.Server.Version, 2, 3):
		verdict("not with this version", figures+"; Puppet Server has it from 2.3 on, and this is "+p.Server.Version)
		return nil
	}
	p.static = true
	verdict("first", figures+"; they are in the catalog then, and no answer is out of date")
	store := p.Server.Data + "/code-snapshots"
	fill := strings.NewReplacer("@CODE@", quote(p.Server.Environments), "@STORE@", quote(store), "@DAYS@", fmt.Sprintf("%.0f", p.figure("snapshot days")),
		"@USER@", p.Server.User, "@NAME@", base(IDScript), "@CONTENT@", base(ContentScript), "@ID@", base(IDScript))
	conf := p.Server.Options + "/versioned-code.conf"
	p.Files = append(p.Files,
		sizing.Artefact{Name: IDScript, What: "says which version of its files an environment has", Checked: "git, and Puppet Server's versioned-code service", Content: fill.Replace(idScript), Executable: true},
		sizing.Artefact{Name: ContentScript, What: "prints a file as it was in a version", Checked: "git, and Puppet Server's versioned-code service", Content: fill.Replace(contentScript), Executable: true})
	if at := p.Server.CommandsAt; at != "" {
		p.Note("%s has one of the commands already, and the server refuses what two files set: set code-id-command to /%s and code-content-command to /%s there", at, IDScript, ContentScript)
	} else {
		p.Files = append(p.Files, sizing.Artefact{Name: conf, What: "tells Puppet Server of both", Checked: "Puppet Server's versioned-code service", Content: fmt.Sprintf(`# Written by fettle size puppet. The server does not start with one of the two alone.
versioned-code: {
    # before each catalog: the version that it is marked with
    code-id-command: "/%s"
    # for each file that an agent has otherwise: its content in that version
    code-content-command: "/%s"
}
`, IDScript, ContentScript)})
	}
	if !p.Server.Static {
		p.Note("static_catalogs is false (%s): take the line out, since without it the commands are of no use; it is true by default", p.Server.StaticAt)
	}
	p.Steps = append(p.Steps,
		sizing.Step{Do: "Static catalogs: install git, and make the directory for the snapshots", Command: fmt.Sprintf("install -d -o %s -g %s -m 0750 %s", p.Server.User, p.Server.User, store)},
		sizing.Step{Do: "Put both scripts in place, and try the first as the server will, before it is told of them: where it fails no catalog is compiled", Command: fmt.Sprintf("runuser -u %s -- /%s production", p.Server.User, IDScript), Check: "it prints a name of 40 letters and digits, and the same again"},
		sizing.Step{Do: "Put versioned-code.conf in place, and restart the server", Command: "systemctl restart puppetserver.service", Restarts: "puppetserver.service, about a minute", Check: "an agent's second run asks for no file_metadata of modules: fettle logs --by indirector"})
	p.Note("static catalogs: only files of modules in an environment (MODULES/MODULE/files) with a source of puppet:///modules are in them; other mounts go on to be asked for")
	return nil
}

func base(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

// quote is a word of a shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// older says whether a version is before another one.
func older(version string, major, minor int) bool {
	var a, b int
	if n, _ := fmt.Sscanf(version, "%d.%d", &a, &b); n == 0 {
		return false
	}
	return a < major || a == major && b < minor
}
