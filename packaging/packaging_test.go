package packaging

import (
	"strings"
	"testing"
)

func TestUnitNamesTheProgram(t *testing.T) {
	for _, name := range Units {
		text, err := Unit(name, "/opt/fettle/bin/fettle", "")
		if err != nil {
			t.Fatal(err)
		}
		if strings.Count(text, "ExecStart=/opt/fettle/bin/fettle ") != 1 || strings.Contains(text, "ExecStart="+Program) {
			t.Errorf("%s does not start the program that was named:\n%s", name, text)
		}
		// packaging/man writes section 8.
		if !strings.Contains(text, "\nDocumentation=man:fettle(8)\n") {
			t.Errorf("%s names another page than make man writes:\n%s", name, text)
		}
		if strings.Contains(text, "Alias=") {
			t.Errorf("%s has an alias that nobody asked for", name)
		}
	}
	text, err := Unit("fettle.service", Program, "tuned.service")
	if err != nil || !strings.HasSuffix(text, "WantedBy=multi-user.target\nAlias=tuned.service\n") {
		t.Errorf("alias: %v\n%s", err, text)
	}
	if _, err := Unit("fettle.service", "/opt/my fettle", ""); err == nil {
		t.Error("a path with a space is taken")
	}
}
