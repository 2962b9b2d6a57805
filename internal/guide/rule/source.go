package rule

import (
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/rules"
)

// Source is the origin of guidance: a section of a document.
type Source struct {
	// Document is the title: "Satellite 6.12 Tuning Guide".
	Document string `json:"document"`
	Section  string `json:"section,omitempty"`
	// Says is the source's value, if the rule uses a different one.
	Says string `json:"says,omitempty"`
	URL  string `json:"url,omitempty"` // of the document
}

// document is an entry of rules/sources.yaml.
type document struct {
	Title string `yaml:"title"`
	URL   string `yaml:"url"`
}

// sourcesFile is the file of the embedded catalog that lists the documents.
const sourcesFile = "sources.yaml"

// documents returns the documents of the catalog by key.
var documents = sync.OnceValue(func() map[string]document {
	out := map[string]document{}
	if text, err := rules.FS.ReadFile(sourcesFile); err == nil {
		_ = yaml.Unmarshal(text, &out) // TestSources reads it
	}
	return out
})

// kernelDocs has a page for each file of the kernel's Documentation directory.
const kernelDocs = "https://docs.kernel.org/"

// Cite returns a section of a document, given its key in rules/sources.yaml. Any other word is the
// title of a document that the catalog lacks, such as an administrator's handbook.
func Cite(key, section string) Source {
	s := Source{Document: key, Section: section}
	if d, ok := documents()[key]; ok {
		s.Document, s.URL = d.Title, d.URL
		if file, ok := strings.CutPrefix(section, "Documentation/"); ok && d.URL == kernelDocs {
			if page, _, ok := strings.Cut(file, ".rst"); ok {
				s.URL += page + ".html"
			}
		}
	}
	return s
}

// String names the source for people: "Satellite 6.12 Tuning Guide, 5.2.4".
func (s Source) String() string {
	text := s.Document
	if s.Section != "" {
		text += ", " + s.Section
	}
	if s.Says != "" {
		text += " (says " + s.Says + ")"
	}
	return text
}

// SourceWords names the sources of a rule in one line.
func SourceWords(sources []Source) string {
	var words []string
	for _, src := range sources {
		words = append(words, src.String())
	}
	return strings.Join(words, "; ")
}
