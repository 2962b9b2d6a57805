package bus

import (
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"fettle.dev/fettle/profiles"
)

// difference is a place where fettle answers otherwise than the distribution's
// TuneD, on purpose. It is asserted: both must answer as its line says, and
// not the same.
type difference struct {
	steps string // names of steps, one a line
	why   string
	// holds says what is wrong with the two answers, or nothing.
	holds func(tuned, fettle string) string
}

var differences = []difference{
	{"introspection of /Tuned", "methods that came after TuneD 2.20",
		more(func(line string) bool {
			return regexp.MustCompile(`^com\.redhat\.tuned\.control\.(get_instances|instance_get_devices|instance_create|instance_destroy) `).MatchString(line)
		})},
	{"tuned-adm list\ntuned-adm list profiles\ntuned-adm profile\nprofiles[]\nprofiles2[]\nprofiles2[] in the dialog", "profiles of our own where TuneD's package has none of that name",
		more(ownProfile)},
	{"tuned-adm list plugins", "plug-ins that came after TuneD 2.20, in another order", more(anything)},
	{"get_all_plugins[]", "plug-ins and options that came after TuneD 2.20; reset_controller is on in 2.28",
		more(anything, "audio reset_controller=False")},
	{"tuned-adm list plugins -v", "the same, with a hint for each option",
		func(tuned, fettle string) string {
			return more(anything)(options(tuned), options(fettle))
		}},
	{"tuned-adm profile nonexistent\ntuned-adm profile balanced nonexistent\ntuned-adm --async profile nonexistent\n" +
		"switch_profile[\"nonexistent\"]\nswitch_profile[\"latency-performance nonexistent\"]\n" +
		`socket {"jsonrpc": "2.0", "method": "switch_profile", "id": 1, "params": ["nonexistent"]}`,
		"the message says where we have looked",
		words(`Requested profile 'nonexistent' doesn't exist\.`, `no profile \\*"nonexistent\\*" in [^"\n]*`)},
	{`switch_profile["../../etc/tuned/balanced"]`, "the message says what a name may be",
		words(`Requested profile '../../etc/tuned/balanced' doesn't exist\.`, `profile name .*: want only letters, .* and \\*"-\\*"`)},
	{"tuned-adm profile broken", "the message has file and line in front",
		words(`(?s)Cannot load profile\(s\) 'broken'.*`, `(?s)/etc/tuned/broken/tuned.conf:3: .*`)},
	{"tuned-adm profile lost", "the message has file and line in front",
		words(`(?s)Cannot load profile\(s\) 'lost'.*`, `(?s)/etc/tuned/lost/tuned.conf:3: .*`)},
	{`instance_acquire_devices["nonexistent" "cpu"]`, "our own words",
		words(`Ignoring devices not handled by any instance '\{'nonexistent'\}'\.`, `No instance has the devices 'nonexistent'`)},

	// Arguments that TuneD refuses since 2.24.1.
	{fmt.Sprintf("switch_profile[%q]", "balanced\n"), "no control bytes in names",
		words(`true, "OK"`, `false, "Invalid profile_name"`)},
	{fmt.Sprintf("switch_profile[%q]", long), "no texts over 4096 bytes",
		words(`Requested profile 'a+' doesn't exist\.`, `Invalid profile_name`)},
	{`switch_profile[""]`, "to select nothing is what disable is for", words(`true, "OK"`, `false, "no profile named"`)},
	{"active_profile[] none", "what was selected stays, because nothing cannot be selected", words(`""`, `"balanced balanced"`)},

	// Wrong calls.
	{"switch_profile[]\nswitch_profile[\"balanced\" \"powersave\"]\nswitch_profile['\\x05']\nlog_capture_start[\"40\" \"10\"]\nactive_profile[\"argument\"]",
		"the D-Bus specification's error instead of Python's",
		words(`org\.freedesktop\.DBus\.Python\.(TypeError|AttributeError|ValueError)`, `org\.freedesktop\.DBus\.Error\.InvalidArgs`)},
	{strings.Join([]string{
		`socket {"jsonrpc": "2.0", "method": "switch_profile", "id": 1}`,
		`socket {"jsonrpc": "2.0", "method": "switch_profile", "id": 1, "params": ["a", "b", "c"]}`,
		`socket {"jsonrpc": "2.0", "method": "switch_profile", "id": 1, "params": {"name": "a"}}`,
		`socket {"jsonrpc": "2.0", "method": "active_profile", "id": 1, "params": 3}`,
		`socket {"jsonrpc": "1.0", "method": "active_profile", "id": 1}`,
		`socket [3]`,
	}, "\n"), "an error's data says what is wrong, in our words",
		words(`"data": ("[^"]*"|null)`, `"data": "([^"\\]|\\.)*"`)},
	{"socket {", "the id of a request that cannot be read is null (JSON-RPC 2.0, section 5); TuneD gives the parser's message for the id",
		words(`"data": null, (.*) "id": "[^"]*"`, `"data": "([^"\\]|\\.)*", (.*) "id": null`)},
}

func anything(string) bool { return true }

// ownProfile says whether a line of a list names a profile that is embedded.
func ownProfile(line string) bool {
	name := strings.Trim(strings.TrimPrefix(line, "- "), `["`)
	if i := strings.IndexAny(name, "\" "); i >= 0 {
		name = name[:i]
	}
	_, err := fs.Stat(profiles.FS, name+"/tuned.conf")
	return name != "" && err == nil
}

// more: fettle has every line that TuneD has, but those that may lack, and
// others that allowed knows.
func more(allowed func(line string) bool, mayLack ...string) func(tuned, fettle string) string {
	return func(tuned, fettle string) string {
		a, b := strings.Split(tuned, "\n"), strings.Split(fettle, "\n")
		for _, line := range a {
			if !slices.Contains(b, line) && !slices.Contains(mayLack, line) {
				return fmt.Sprintf("fettle lacks %q", line)
			}
		}
		for _, line := range b {
			if !slices.Contains(a, line) && !allowed(line) {
				return fmt.Sprintf("only fettle has %q", line)
			}
		}
		return ""
	}
}

// words: what is left besides the two patterns is equal.
func words(tunedPattern, fettlePattern string) func(tuned, fettle string) string {
	a, b := regexp.MustCompile(tunedPattern), regexp.MustCompile(fettlePattern)
	return func(tuned, fettle string) string {
		switch {
		case !a.MatchString(tuned):
			return "TuneD does not say " + tunedPattern
		case !b.MatchString(fettle):
			return "fettle does not say " + fettlePattern
		}
		if rest, ours := a.ReplaceAllLiteralString(tuned, "…"), b.ReplaceAllLiteralString(fettle, "…"); rest != ours {
			return fmt.Sprintf("besides these words, %q is not %q", ours, rest)
		}
		return ""
	}
}

// options makes lines "plug-in" and "plug-in option" of tuned-adm list plugins
// -v, without hints.
func options(text string) string {
	var lines []string
	plugin := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "\t\t"):
		case strings.HasPrefix(line, "\t"):
			lines = append(lines, plugin+" "+line[1:])
		default:
			plugin = line
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}
