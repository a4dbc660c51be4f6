"""The page's looks: few colours, which colour-blind people can tell apart."""

from __future__ import annotations

from loadgen.report.plots.chart import Tone

__all__ = ["CSS"]

CSS = """
:root{color-scheme:light dark;--paper:#fff;--ink:#1b1f24;--soft:#59636e;--hair:#d9dee3;
--wash:#f5f7f8;--good:#0072b2;--late:#6fb7e4;--admission:#c8500a;--gateway:#a8578b;
--router:#d79a00;--provider:#8f8a1c;--failed:#3b4148;--network:#7c858f;--own:#b9c0c7;
--unknown:#98a1aa;--first:#6a51a3;--second:#00875f;--third:#a87400;--fourth:#59636e;
--plain:#59636e;--yes:#00694a;--no:#b3261e}
@media screen and (prefers-color-scheme:dark){:root{--paper:#14171a;--ink:#e4e8eb;
--soft:#9aa5b0;--hair:#343b42;--wash:#1c2125;--good:#4ba3dc;--late:#9ad0f2;
--admission:#e8803f;--gateway:#cf8ab6;--router:#e3b341;--provider:#bdb84f;
--failed:#c9d1d9;--network:#8b949e;--own:#5b646d;--unknown:#6e7781;--first:#a996e0;
--second:#3bb48c;--third:#d9a93a;--fourth:#9aa5b0;--plain:#9aa5b0;--yes:#4cc38a;
--no:#ff8a80}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,Arial,sans-serif;
font-variant-numeric:tabular-nums;overflow-wrap:anywhere;-webkit-text-size-adjust:100%}
main{max-width:928px;margin:0 auto;padding:28px 24px 48px}
p,li,td,th,dd,dt,h1,h2,h3{unicode-bidi:isolate}
.kind{margin:0;color:var(--soft)}
h1{margin:0 0 14px;font-size:20px;line-height:1.3;font-weight:600}
h2{margin:44px 0 10px;padding-top:12px;border-top:1px solid var(--hair);font-size:17px;
line-height:1.3;font-weight:600}
h3{margin:24px 0 4px;font-size:15px;font-weight:600}
.tag{color:var(--soft);font-weight:400;white-space:nowrap}
.verdict{margin:0 0 6px;font-weight:600}
.verdict.good{color:var(--yes)}.verdict.bad{color:var(--no)}
.headline{margin:0;font-size:18px;line-height:1.45;max-width:46em}
.numbers{display:grid;grid-template-columns:repeat(4,1fr);
gap:14px 20px;margin:24px 0 0;padding:0}
.numbers div{border-top:2px solid var(--ink);padding-top:6px}
.numbers dt{color:var(--soft);font-size:13px}
.numbers dd{margin:0}
.numbers .value{font-size:26px;line-height:1.25;font-weight:600}
.numbers .note{color:var(--soft);font-size:13px}
figure{margin:14px 0 0}
.halves{display:grid;grid-template-columns:1fr 1fr;gap:0 24px}
.panel{margin:12px 0 0}
.panel .heading{margin:0;font-size:13px;font-weight:600}
.panel .keys{margin:0;font-size:13px;color:var(--soft)}
.key{white-space:nowrap;margin-right:12px}
.key i{display:inline-block;width:9px;height:9px;margin-right:5px;border-radius:1px}
svg{display:block;max-width:100%;height:auto;overflow:visible}
svg text{font-size:12px;fill:var(--soft)}
svg .end,svg .rule-label{font-weight:500}
svg text.rule-label{fill:var(--ink)}
.narrow{display:none}
.grid{stroke:var(--hair);fill:none}.axis{stroke:var(--soft);fill:none}
.line{fill:none;stroke-width:1.8;stroke-linejoin:round}
.dashed{stroke-dasharray:5 3}
.dot{fill:none;stroke-width:5;stroke-linecap:round;stroke-opacity:.75}
.whisker{fill:none;stroke-width:1.2;stroke-opacity:.7}
.rule{stroke:var(--ink);stroke-width:1;stroke-dasharray:2 3;fill:none}
svg text.t-late,svg text.t-own,svg text.t-unknown{fill:var(--soft)!important}
.band{fill-opacity:.12}
.notes{margin:6px 0 0;padding:0;list-style:none;color:var(--soft);font-size:13px}
.scroll{overflow-x:auto;margin:8px 0 0}
.scroll:focus-visible{outline:2px solid var(--good)}
table{border-collapse:collapse;font-size:14px;overflow-wrap:normal}
caption{text-align:left;font-weight:600;padding:14px 0 4px}
th,td{padding:3px 0 3px 18px;text-align:left;vertical-align:baseline;font-weight:400}
th:first-child,td:first-child{padding-left:0}
thead th,thead td{color:var(--soft);font-size:13px;border-bottom:1px solid var(--hair);
vertical-align:bottom}
.n{text-align:right;white-space:nowrap}
tbody th{max-width:24em}
.deep{padding-left:16px!important;color:var(--soft)}
.below td{padding:0 0 5px 16px;color:var(--soft);font-size:13px;overflow-wrap:anywhere}
.facts{display:grid;grid-template-columns:minmax(9em,13em) 1fr;gap:2px 18px;
margin:4px 0 0;font-size:14px}
.facts dt{color:var(--soft)}.facts dd{margin:0}
details{margin:8px 0 0}
summary{color:var(--soft);font-size:13px;cursor:pointer}
.remarks{margin:4px 0 0;padding-left:18px}
.remedy{color:var(--soft);display:block}
code,pre{font:13px/1.45 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
pre{margin:2px 0 10px;padding:8px 10px;background:var(--wash);white-space:pre-wrap}
.why{margin:8px 0 0;font-size:14px}
footer{margin-top:44px;padding-top:12px;border-top:1px solid var(--hair);
color:var(--soft);font-size:13px}
@media(max-width:640px){main{padding:18px 16px 32px}.wide{display:none}
.narrow{display:block}.halves{display:block}.headline{font-size:17px}
.facts{grid-template-columns:1fr;gap:0}.facts dd{margin-bottom:6px}
.numbers{grid-template-columns:1fr 1fr}.numbers .value{font-size:22px}
th,td{padding-left:12px}
table{font-size:13px}.spare{display:none}.below div{max-width:calc(100vw - 48px)}}
@media print{@page{margin:14mm}body{font-size:11.5px}main{max-width:none;padding:0}
h1{font-size:17px}.headline{font-size:14px}h2{font-size:14px;margin-top:26px}
h2,h3,.why{break-after:avoid}tr,.panel,.halves,.numbers,.scroll,pre{break-inside:avoid}
table,thead th,.facts,.why,.notes,.below td,.numbers dt,.numbers .note,.keys,.heading{
font-size:11px!important}
thead{display:table-header-group}.numbers .value{font-size:20px}
.wide{display:block}.narrow{display:none}.halves{display:grid}.scroll{overflow:visible}
*{print-color-adjust:exact;-webkit-print-color-adjust:exact}
details:not([open]){display:none}}
"""
CSS += "".join(
    f".f-{tone}{{fill:var(--{tone})}}.key .f-{tone}{{background:var(--{tone})}}"
    f".l-{tone}{{stroke:var(--{tone})}}svg text.t-{tone}{{fill:var(--{tone})}}"
    for tone in Tone
)
