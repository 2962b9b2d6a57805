package puppetserver

import (
	"strings"
	"testing"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product/accesslog"
	"fettle.dev/fettle/internal/testkit/machine"
)

// TestLogs reads a file of the form that the packages have.
func TestLogs(t *testing.T) {
	dir := machine.Dir(t)
	const xml = "/etc/puppetlabs/puppetserver/request-logging.xml"
	machine.WriteFile(t, dir, "/etc/puppetlabs/puppetserver/conf.d/webserver.conf", "webserver: {\n    access-log-config: "+xml+"\n}\n")
	write := func(pattern string) {
		machine.WriteFile(t, dir, xml, `<configuration debug="false" scan="true">
    <property name="dir" value="/var/log/puppetlabs"/>
    <appender name="FILE" class="ch.qos.logback.core.rolling.RollingFileAppender">
        <file>${dir}/puppetserver/puppetserver-access.log</file>
        <append>true</append>
        <rollingPolicy class="ch.qos.logback.core.rolling.SizeAndTimeBasedRollingPolicy">
            <fileNamePattern>${dir}/puppetserver/puppetserver-access-%d{yyyy-MM-dd}.%i.log.gz</fileNamePattern>
        </rollingPolicy>
        <encoder>
            <pattern>`+pattern+`</pattern>
        </encoder>
    </appender>
    <appender-ref ref="FILE" />
</configuration>
`)
	}
	h := host.Mounted(dir)
	write(`%h %l %u [%t] &quot;%r&quot; %s %b "%i{Referer}" "%i{User-Agent}" %D %i{Content-Length} %mdc{jruby.borrow-time:--}`)
	for _, main := range []string{"/etc/puppetlabs/puppetserver", xml} {
		all, err := Logs(h, main)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{"/var/log/puppetlabs/puppetserver/puppetserver-access.log", "/var/log/puppetlabs/puppetserver/puppetserver-access-2026-11-20.3.log.gz"} {
			l, _, err := accesslog.Of(all, file)
			if err != nil {
				t.Fatal(err)
			}
			f, err := l.Compile()
			if err != nil || f.Field("duration") < 0 || f.Fields[f.Field("duration")].Unit != 1e6 || f.Why != "pattern of "+xml+":10" {
				t.Errorf("%+v, %v", f, err)
			}
		}
	}
	// The server's own log, by the packages' logback.xml, is one that is named.
	const own = "/etc/puppetlabs/puppetserver/logback.xml"
	machine.WriteFile(t, dir, own, `<configuration>
    <appender name="STDOUT" class="ch.qos.logback.core.ConsoleAppender"><encoder><pattern>%d %m%n</pattern></encoder></appender>
    <appender name="F1" class="ch.qos.logback.core.rolling.RollingFileAppender">
        <file>/var/log/puppetlabs/puppetserver/puppetserver.log</file>
        <encoder>
            <pattern>%d{yyyy-MM-dd'T'HH:mm:ss.SSSXXX} %-5p [%t] [%c{2}] %m%n</pattern>
        </encoder>
    </appender>
    <appender name="STATUS">
        <file>/var/log/puppetlabs/puppetserver/puppetserver-status.log</file>
        <encoder><pattern>%m%n</pattern></encoder>
    </appender>
</configuration>
`)
	for main, n := range map[string]int{"/etc/puppetlabs/puppetserver": 4, own: 2} {
		all, err := Logs(h, main)
		if err != nil || len(all) != n {
			t.Fatalf("%s: %d logs, %v", main, len(all), err)
		}
		l, _, err := accesslog.Of(all, "/var/log/puppetlabs/puppetserver/puppetserver.log")
		if err != nil || !l.Own {
			t.Fatalf("%+v, %v", l, err)
		}
		f, err := l.Compile()
		if err != nil || f.Field("requestor") < 0 || f.NoZone || f.Why != "pattern of "+own+":6" {
			t.Errorf("%+v, %v", f, err)
		}
		if l, _, err = accesslog.Of(all, "/var/log/puppetlabs/puppetserver/puppetserver-status.log"); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Compile(); err == nil || !strings.Contains(err.Error(), own+":11:27: pattern, %m%n: must begin as in puppetserver.log") {
			t.Error(err)
		}
	}
	write("%h %l\n              %wrong{x} %s")
	all, err := Logs(h, xml)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := all[0].Compile(); err == nil || !strings.Contains(err.Error(), xml+":11:15: pattern, %wrong{x}: unknown logback-access conversion word") {
		t.Error(err)
	}
	machine.WriteFile(t, dir, xml, "<configuration>\n<appender>\n</configuration>\n")
	if _, err := Logs(h, xml); err == nil || !strings.Contains(err.Error(), xml+":3: ") {
		t.Error(err)
	}
}
