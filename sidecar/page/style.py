"""The page's style and script: constants, so that the page's policy can name them by their hashes."""

STYLE = """\
:root{color-scheme:light dark;--paper:#fff;--ink:#1c2126;--quiet:#56606b;--rule:#d5dae0;--box:#f3f5f7;--track:#dfe4e9;
--good:#0a6b3d;--bad:#b3261e;--warn:#8a4b00;--odd:#5b4a9c;--none:#7fae93;--unknown:#8b949e;--preemption:#d98a00;--stalled:#7b4bb7;
--cuda:#d9541e;--host:#8e0f3c;--engine:#3c424a;--gap:#d5dae0;--c0:#a4460c;--c1:#0b5cad}
@media(prefers-color-scheme:dark){:root{--paper:#14181c;--ink:#e6eaee;--quiet:#a8b2bd;--rule:#39424c;--box:#1d2329;--track:#333c45;
--good:#5fd39a;--bad:#ff8f85;--warn:#f0b35b;--odd:#bfaef5;--none:#4d7d62;--unknown:#7d8791;--preemption:#e8a33d;--stalled:#b493e6;
--cuda:#ff8a4c;--host:#ff4f8b;--engine:#f2f4f6;--gap:#39424c;--c0:#f2a166;--c1:#7db8f5}}
*{box-sizing:border-box}
html{scroll-behavior:smooth}@media(prefers-reduced-motion:reduce){html{scroll-behavior:auto}}
body{margin:0 auto;max-width:1080px;padding:12px 16px 40px;background:var(--paper);color:var(--ink);
font:16px/1.5 system-ui,sans-serif;overflow-wrap:break-word}
a{color:inherit}:focus-visible{outline:3px solid var(--c1);outline-offset:2px}
header{display:flex;flex-wrap:wrap;gap:0 1em;justify-content:space-between;color:var(--quiet);font-size:.9rem}
header p,footer p{margin:.2em 0;min-width:0;overflow-wrap:anywhere}.late{color:var(--paper);background:var(--bad);font-weight:600;padding:.1em .6em;font-size:1.1rem}
h1{font-size:1.6rem;line-height:1.25;margin:.2em 0}
h2{font-size:1.2rem;margin:1.8em 0 .5em;border-bottom:1px solid var(--rule)}
h3{font-size:1rem;margin:1.2em 0 .3em}
p{margin:.4em 0}dd p{margin:.1em 0}
.head{border-left:8px solid var(--unknown);background:var(--box);padding:.6em 1em;margin:.4em 0 1em}
.head.critical{border-color:var(--bad)}.head.warning{border-color:var(--warn)}.head.quiet{border-color:var(--good)}
.pill{color:var(--paper);background:var(--unknown);padding:.1em .6em;border-radius:.3em;font-size:.95rem}
.critical .pill{background:var(--bad)}.warning .pill{background:var(--warn)}.quiet .pill{background:var(--good)}
.unknown .pill,.info .pill{color:var(--paper);background:var(--quiet)}
.stale{color:var(--bad);font-weight:600}
.why{max-width:54em}
dl{display:grid;grid-template-columns:minmax(8.5em,max-content) 1fr;gap:.25em 1.2em;margin:.6em 0}
dt{color:var(--quiet)}dd{margin:0;min-width:0}
.lever dd p{max-width:54em}
.budgets{grid-template-columns:minmax(8.5em,14em) 1fr;gap:.7em 1.2em}
@media(max-width:600px){dl,.budgets{display:block}dt{margin-top:.5em}}
ul,ol{padding-left:1.3em;margin:.4em 0}
nav ul,.legend,.times{list-style:none;padding:0;display:flex;flex-wrap:wrap;gap:.2em 1em;margin:.3em 0}
nav a{display:inline-block;padding:.1em .6em;border:1px solid var(--rule);border-radius:.3em}
nav a[aria-current]{background:var(--ink);color:var(--paper);text-decoration:none}
.legend,.times{font-size:.85rem;color:var(--quiet)}.times{justify-content:space-between;flex-wrap:nowrap;gap:.3em}
@media(max-width:600px){.times li:nth-child(even){display:none}}
.changes{list-style:none;padding:0;font-size:.92rem}
svg{display:block}
.strip{width:100%;height:40px}.swatch{display:inline-block;width:.8em;height:.8em;margin-right:.4em;vertical-align:-.05em}
.v-none{fill:var(--none)}.v-unknown{fill:var(--unknown)}.v-preemption{fill:var(--preemption)}.v-stalled{fill:var(--stalled)}
.v-cuda_oom{fill:var(--cuda)}.v-host_oom{fill:var(--host)}.v-engine_failure{fill:var(--engine)}.gap{fill:var(--gap)}
figure{margin:.8em 0 0}figcaption{font-size:.9rem}figcaption span{margin-left:.9em}
.plot svg{width:100%;height:64px;border-bottom:1px solid var(--rule);background:var(--box)}
.plot path{fill:none;stroke-width:2;vector-effect:non-scaling-stroke}
.plot .grid{stroke:var(--rule);stroke-width:1}
path.c0{stroke:var(--c0)}path.c1{stroke:var(--c1);stroke-dasharray:5 3}
span.c0{color:var(--c0)}span.c1{color:var(--c1)}span.c0:before{content:"\\2014  "}span.c1:before{content:"- -  "}
.empty{color:var(--quiet)}
.bar{width:100%;height:14px}.bar .track{fill:var(--track)}.bar .part{fill:var(--c1)}.bar .full{fill:var(--warn)}
.bar .mark{stroke:var(--ink);stroke-width:2;vector-effect:non-scaling-stroke}
.unknown-share{color:var(--quiet)}
.binds{color:var(--bad)}
.seen{color:var(--good)}.unseen strong,strong.unseen{color:var(--bad)}
.wide{overflow-x:auto;margin:.4em 0}
table{border-collapse:collapse;font-size:.9rem;font-variant-numeric:tabular-nums}
th,td{padding:.25em .8em .25em 0;border-bottom:1px solid var(--rule);text-align:left;vertical-align:top}
th{color:var(--quiet);font-weight:600}
code{font-size:.92em}
details{margin:.8em 0}dd details{margin:0}summary{cursor:pointer}
footer{margin-top:2.5em;border-top:1px solid var(--rule);color:var(--quiet);font-size:.9rem}
"""
SCRIPT = """\
(function(){
"use strict";
var every=Number(document.body.getAttribute("data-every"))*1000,got=Date.now(),busy=false;
function say(){
var age=Math.round((Date.now()-got)/1000),fresh=document.getElementById("fresh");
if(!fresh)return;
var late=age*1000>3*every+2000;
var text=late?"Not refreshed for "+age+" s: what is shown is old":"Refreshed "+age+" s ago";
if(fresh.textContent!==text)fresh.textContent=text;
fresh.className=late?"late":"";
}
function take(text){
var next=new DOMParser().parseFromString(text,"text/html"),main=document.querySelector("main"),fresh=next.querySelector("main");
if(!fresh||!main)return false;
var open=Array.prototype.map.call(main.querySelectorAll("details[open]"),function(one){return one.id;});
open.forEach(function(id){var one=id&&next.getElementById(id);if(one)one.open=true;});
var held=document.activeElement,path=held&&main.contains(held)?held.getAttribute("href"):null,folded=held&&held.tagName==="SUMMARY"?held.parentNode.id:null;
main.replaceWith(document.adoptNode(fresh));
document.title=next.title;
var again=folded?document.querySelector("#"+folded+">summary"):path?document.querySelector('main a[href="'+path+'"]'):null;
if(again)again.focus({preventScroll:true});
return true;
}
function ask(){
if(busy||document.hidden)return;
if(String(document.getSelection&&document.getSelection()))return;
busy=true;
var stop=new AbortController(),limit=setTimeout(function(){stop.abort();},10000);
fetch(location.pathname+location.search,{cache:"no-store",signal:stop.signal}).then(function(answer){
if(!answer.ok)throw new Error("status");
return answer.text();
}).then(function(text){if(take(text))got=Date.now();}).catch(function(){}).then(function(){clearTimeout(limit);busy=false;say();});
}
setInterval(ask,every);setInterval(say,1000);
document.addEventListener("visibilitychange",function(){if(!document.hidden)ask();});
say();
})();
"""
