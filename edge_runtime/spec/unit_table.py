"""The closed list of units and of their spellings, as data that `units` reads; it computes nothing."""

_PI = "3.14159265358979323846264338327950288"
_LB = "0.45359237"
_LBF = "0.45359237*9.80665"
_HG = "13595.1*9.80665"  # conventional millimetre of mercury (ISO 80000-4); UCUM's own table rounds it to 133.322 Pa
_GAL = "231*0.0254*0.0254*0.0254"
_FT3 = "0.3048*0.3048*0.3048"

# One dimension a row, one `code=scale+offset` a unit, most common first. Quantities that share SI dimensions but mean
# different things (torque and energy, rotation and frequency, real and reactive power) are dimensions of their own;
# so is each logarithmic level, within which alone its unit is affine.
UNITS: dict[str, str] = {
    "temperature": "Cel=1+273.15 K=1 [degF]=5/9+45967/180 [degR]=5/9",
    "pressure": "hPa=100 kPa=1000 Pa=1 mbar=100 bar=1e5 MPa=1e6 "
    f"[psi]={_LBF}/0.0254/0.0254 [in_i'Hg]={_HG}*0.0254 mm[Hg]={_HG}*0.001 [in_i'H2O]=9806.65*0.0254 cm[H2O]=98.0665 "
    "atm=101325 Torr=101325/760",
    "1": "%=0.01 1=1 [ppm]=1e-6 [ppb]=1e-9 [ppth]=1e-3 [pptr]=1e-12",
    "count": "{count}=1",
    "speed": "m/s=1 km/h=1/3.6 [mi_i]/h=1609.344/3600 [kn_i]=1852/3600 [ft_i]/s=0.3048 mm/s=1e-3 [in_i]/s=0.0254 "
    "mm/h=1e-3/3600 [in_i]/h=0.0254/3600 mm/d=1e-3/86400 m/h=1/3600",
    "acceleration": "m/s2=1 [g]=9.80665 m[g]=0.00980665 mm/s2=1e-3 Gal=0.01 [ft_i]/s2=0.3048",
    "length": "m=1 mm=1e-3 cm=0.01 km=1000 um=1e-6 nm=1e-9 [in_i]=0.0254 [ft_i]=0.3048 [yd_i]=0.9144 [mi_i]=1609.344 "
    "[nmi_i]=1852",
    "area": "m2=1 cm2=1e-4 mm2=1e-6 [sft_i]=0.3048*0.3048 [sin_i]=0.0254*0.0254",
    "volume": f"L=1e-3 mL=1e-6 m3=1 uL=1e-9 [gal_us]={_GAL} [gal_br]=0.00454609 [foz_us]={_GAL}/128 [cft_i]={_FT3}",
    "volume flow": "L/min=1e-3/60 m3/h=1/3600 L/s=1e-3 m3/s=1 mL/min=1e-6/60 L/h=1e-3/3600 "
    f"[gal_us]/min={_GAL}/60 [cft_i]/min={_FT3}/60 mL/s=1e-6",
    "mass": f"g=1e-3 kg=1 mg=1e-6 ug=1e-9 t=1000 [lb_av]={_LB} [oz_av]={_LB}/16 [gr]={_LB}/7000 [car_m]=2e-4",
    "mass flow": f"kg/h=1/3600 kg/s=1 g/s=1e-3 g/min=1e-3/60 [lb_av]/h={_LB}/3600",
    "density": "ug/m3=1e-9 mg/m3=1e-6 mg/L=1e-3 ug/L=1e-6 g/L=1 kg/m3=1 g/m3=1e-3 g/cm3=1000 mg/dL=0.01",
    "amount concentration": "mmol/L=1 mol/L=1000 umol/L=1e-3",
    "force": f"N=1 kN=1000 mN=1e-3 kgf=9.80665 [lbf_av]={_LBF}",
    "torque": f"N.m=1 mN.m=1e-3 kN.m=1000 [ft_i].[lbf_av]={_LBF}*0.3048 [in_i].[lbf_av]={_LBF}*0.0254",
    "dynamic viscosity": "mPa.s=1e-3 Pa.s=1",
    "kinematic viscosity": "mm2/s=1e-6 m2/s=1",
    "time": "s=1 ms=1e-3 us=1e-6 ns=1e-9 min=60 h=3600 d=86400",
    "frequency": "Hz=1 kHz=1e3 MHz=1e6 GHz=1e9 /min=1/60",
    "angle": f"deg=1/180*{_PI} rad=1 mrad=1e-3 circ=2*{_PI}",
    "rotation": f"circ/min=2/60*{_PI} rad/s=1 deg/s=1/180*{_PI} circ/s=2*{_PI}",
    "electric potential": "V=1 mV=1e-3 uV=1e-6 kV=1000",
    "electric current": "A=1 mA=1e-3 uA=1e-6 nA=1e-9 kA=1000",
    "electric resistance": "Ohm=1 mOhm=1e-3 kOhm=1e3 MOhm=1e6",
    "electric charge": "A.h=3600 mA.h=3.6 A.s=1",
    "capacitance": "uF=1e-6 nF=1e-9 pF=1e-12",
    "inductance": "mH=1e-3 uH=1e-6 H=1",
    "conductivity": "uS/cm=1e-4 mS/cm=0.1 S/m=1 dS/m=0.1",
    "power": "W=1 kW=1000 MW=1e6 mW=1e-3",
    "apparent power": "V.A=1 kV.A=1000",
    "reactive power": "var=1 kvar=1000",
    "energy": "kW.h=3.6e6 W.h=3600 MW.h=3.6e9 J=1 kJ=1e3 MJ=1e6 GJ=1e9",
    "irradiance": "W/m2=1 kW/m2=1000 mW/cm2=10",
    "radiant exposure": "MJ/m2=1e6 J/m2=1 W.h/m2=3600 kW.h/m2=3.6e6",
    "photon flux density": "umol/m2/s=1e-6",
    "illuminance": "lx=1 klx=1000",
    "luminance": "cd/m2=1",
    "UV index": "{UV_index}=1",
    "magnetic flux density": "uT=1e-6 mT=1e-3 nT=1e-9 T=1 G=1e-4",
    "dose rate": "uSv/h=1e-6/3600 mSv/h=1e-3/3600 nSv/h=1e-9/3600",
    "activity concentration": "Bq/m3=1 Bq/L=1000",
    "data": "By=8 kBy=8e3 MBy=8e6 GBy=8e9 KiBy=8192 MiBy=8388608 bit=1",
    "data rate": "bit/s=1 kbit/s=1e3 Mbit/s=1e6 By/s=8 kBy/s=8e3 MBy/s=8e6",
    "turbidity": "[NTU]=1",
    "acidity level": "[pH]=1",
    "level": "dB=1",
    "power level": "dBm=1+-30 dB[W]=1",
    "sound pressure level": "dB[SPL]=1 B[SPL]=10",
    "A-weighted sound level": "dBA=1",
}

# Known where they are declared, never offered as what a number may have been: some unit of so many would always fit.
RARE = frozenset(
    ("[degR]", "atm", "Torr", "[ppth]", "[pptr]", "[in_i]/s", "[in_i]/h", "mm/d", "m/h", "[gr]", "[car_m]", "circ", "circ/s")
)  # fmt: skip

# `spelling=code`, or the code alone where the vocabulary spells it the same; `␣` stands for a blank. Nothing crosses
# from one to another.
SPELLINGS: dict[str, str] = {
    "ucum": "l=L ml=mL ul=uL l/min=L/min l/s=L/s l/h=L/h mg/l=mg/L ug/l=ug/L g/l=g/L mol/l=mol/L mmol/l=mmol/L "
    "1/min=/min 1/s=Hz m.s-2=m/s2 W.m-2=W/m2 umol/(m2.s)=umol/m2/s",
    # RFC 8428 section 12.1, RFC 8798 and the IANA SenML registries; farad and coulomb are left out, see docs.
    "senml": "Cel K Pa hPa /=1 /100=% %RH=% %EL=% %=1 /1000=[ppth] ppm=[ppm] ppb=[ppb] ppt=[pptr] count={count} "
    "beats={count} m/s km/h mm/h m/h m/s2 m mm cm km m2 m3 l=L m3/s l/s=L/s kg g kg/m3 ug/m3 g/l=g/L mg/l=mg/L "
    "ug/l=ug/L N s EL=s ms min h Hz MHz 1/s=Hz 1/min=/min beat/min=/min rad deg lat=deg lon=deg V mV A mA Ohm H "
    "Ah=A.h S/m W kW VA=V.A kVA=kV.A var kvar J Wh=W.h kWh=kW.h W/m2 lx cd/m2 T B=By KiB=KiBy GB=GBy bit bit/s "
    "Mbit/s B/s=By/s MB/s=MBy/s NTU=[NTU] pH=[pH] dB dBW=dB[W] dBm Bspl=B[SPL]",
    # The unit constants of Home Assistant's homeassistant/const.py; its gallons and fluid ounces are US ones.
    "home-assistant": "°C=Cel °F=[degF] K Pa hPa kPa bar mbar cbar=kPa psi=[psi] inHg=[in_i'Hg] mmHg=mm[Hg] "
    "inH₂O=[in_i'H2O] % ppm=[ppm] ppb=[ppb] m/s km/h mph=[mi_i]/h kn=[kn_i] ft/s=[ft_i]/s in/s=[in_i]/s mm/s mm/h "
    "in/h=[in_i]/h mm/d m mm cm km in=[in_i] ft=[ft_i] yd=[yd_i] mi=[mi_i] nmi=[nmi_i] m²=m2 cm²=cm2 mm²=mm2 "
    "ft²=[sft_i] in²=[sin_i] L mL m³=m3 gal=[gal_us] ft³=[cft_i] L/min L/h L/s mL/s m³/h=m3/h m³/s=m3/s "
    "gal/min=[gal_us]/min ft³/min=[cft_i]/min g kg mg µg=ug lb=[lb_av] oz=[oz_av] µg/m³=ug/m3 mg/m³=mg/m3 g/m³=g/m3 "
    "mg/dL mmol/L s ms µs=us min h d Hz kHz MHz GHz °=deg rpm=circ/min V mV µV=uV kV A mA µS/cm=uS/cm mS/cm W kW MW "
    "mW VA=V.A kVA=kV.A var kvar J kJ MJ GJ Wh=W.h kWh=kW.h MWh=MW.h W/m²=W/m2 lx B=By kB=kBy MB=MBy GB=GBy "
    "KiB=KiBy MiB=MiBy bit bit/s kbit/s Mbit/s B/s=By/s kB/s=kBy/s MB/s=MBy/s dB dBA dBm UV␣index={UV_index} "
    "fl.␣oz.=[foz_us]",
    "plain": "degC=Cel °C=Cel celsius=Cel K kelvin=K degF=[degF] °F=[degF] fahrenheit=[degF] degR=[degR] Pa hPa kPa "
    "MPa bar mbar psi=[psi] inHg=[in_i'Hg] mmHg=mm[Hg] inH2O=[in_i'H2O] cmH2O=cm[H2O] atm Torr torr=Torr percent=% "
    "%RH=% ratio=1 ppm=[ppm] ppb=[ppb] permille=[ppth] mV/V=[ppth] count={count} m/s km/h mph=[mi_i]/h kn=[kn_i] "
    "knots=[kn_i] ft/s=[ft_i]/s mm/s in/s=[in_i]/s mm/h in/h=[in_i]/h mm/d m/s2 m/s²=m/s2 m/s^2=m/s2 [g] "
    "gravity=[g] m[g] mm/s2 ft/s2=[ft_i]/s2 m mm cm km um µm=um nm in=[in_i] ft=[ft_i] yd=[yd_i] mi=[mi_i] "
    "nmi=[nmi_i] m2 m²=m2 cm2 mm2 ft2=[sft_i] in2=[sin_i] L l=L mL ml=mL uL µL=uL m3 m³=m3 gal_us=[gal_us] "
    "gal_uk=[gal_br] floz_us=[foz_us] ft3=[cft_i] L/min l/min=L/min L/h L/s mL/min mL/s m3/h m³/h=m3/h m3/s "
    "gpm_us=[gal_us]/min cfm=[cft_i]/min gram=g kg mg ug µg=ug t lb=[lb_av] oz=[oz_av] grain=[gr] carat=[car_m] "
    "kg/h kg/s g/s g/min lb/h=[lb_av]/h ug/m3 µg/m3=ug/m3 µg/m³=ug/m3 mg/m3 mg/L mg/l=mg/L ug/L g/L kg/m3 g/m3 "
    "g/cm3 mg/dL mol/L mmol/L umol/L N kN mN kgf lbf=[lbf_av] Nm=N.m N.m N*m=N.m mNm=mN.m kNm=kN.m "
    "ft-lbf=[ft_i].[lbf_av] in-lbf=[in_i].[lbf_av] mPa.s cP=mPa.s Pa.s cSt=mm2/s mm2/s m2/s s ms us µs=us ns min h "
    "d Hz kHz MHz GHz 1/min=/min bpm=/min deg °=deg rad mrad turn=circ rpm=circ/min deg/s rad/s V mV uV µV=uV kV A "
    "mA uA µA=uA nA kA Ohm Ω=Ohm mOhm kOhm kΩ=kOhm MOhm MΩ=MOhm Ah=A.h mAh=mA.h coulomb=A.s uF µF=uF nF pF mH uH "
    "µH=uH H uS/cm µS/cm=uS/cm mS/cm S/m dS/m W kW MW mW VA=V.A kVA=kV.A var kvar J kJ MJ GJ Wh=W.h kWh=kW.h "
    "MWh=MW.h W/m2 W/m²=W/m2 kW/m2 mW/cm2 J/m2 MJ/m2 Wh/m2=W.h/m2 kWh/m2=kW.h/m2 umol/m2/s µmol/m²/s=umol/m2/s lx "
    "lux=lx klx cd/m2 UVI={UV_index} uT µT=uT mT nT T gauss=G uSv/h µSv/h=uSv/h mSv/h nSv/h Bq/m3 Bq/L B=By kB=kBy "
    "MB=MBy GB=GBy KiB=KiBy MiB=MiBy bit bit/s kbit/s Mbit/s B/s=By/s kB/s=kBy/s MB/s=MBy/s NTU=[NTU] pH=[pH] dB "
    "dBm dBW=dB[W] dBSPL=dB[SPL] dBA dB(A)=dBA",
}

# Spellings that people use for more than one unit, with each meaning. A vocabulary that defines one (`g` in UCUM)
# keeps it; `C` and `F` are defined in none, as coulomb and farad are hardly ever what a gateway meant by them.
AMBIGUOUS: dict[str, tuple[tuple[str, str], ...]] = {
    "C": (("Cel", "degrees Celsius"), ("A.s", "coulombs")),
    "F": (("[degF]", "degrees Fahrenheit"), ("uF", "microfarads")),
    "g": (("g", "grams"), ("[g]", "standard gravity")),
    "G": (("[g]", "standard gravity"), ("G", "gauss")),
    "%": (("%", "percent"), ("1", "a ratio of 1")),
    "gal": (("[gal_us]", "US gallons"), ("[gal_br]", "imperial gallons"), ("Gal", "cm/s2")),
    "gpm": (("[gal_us]/min", "US gallons a minute"), ("g/min", "grams a minute")),
    "ppt": (("[ppth]", "parts per thousand"), ("[pptr]", "parts per trillion")),
}

# What people write first, in lower case; no vocabulary takes these, they only lead on.
EVERYDAY: dict[str, str] = {
    "rpm": "circ/min", "rev/min": "circ/min", "r/min": "circ/min", "u/min": "circ/min", "tr/min": "circ/min",
    "rps": "circ/s", "rev/s": "circ/s", "amp": "A", "amps": "A", "ampere": "A", "amperes": "A", "volt": "V",
    "volts": "V", "watt": "W", "watts": "W", "lpm": "L/min", "celsius": "Cel", "fahrenheit": "[degF]",
    "kelvin": "K", "percent": "%", "pct": "%",
}  # fmt: skip
