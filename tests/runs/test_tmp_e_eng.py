import json, pytest
BASE={"rounds":{"max":4,"fraction":0.5}}
CASES=[{}, {"upload":"lean"},{"upload":"lean","max_age":1},{"participation":"last_round"},{"centred":True},{"centred":"auto","encoding":{"up":{"fisher":"bfloat16","fisher_theta":"bfloat16","weights":"int8"}}},
{"keep":0.1},{"keep":0.1,"upload":"lean"},{"fisher":"true"},{"fisher":"sampled"},{"fisher":"batch_squared"},
{"encoding":{"up":{"fisher":"int8-sqrt","fisher_theta":"int8","weights":"int8"},"down":{"fisher":"bfloat16","fisher_theta":"bfloat16"}}},
{"encoding":{"up":{"fisher":"top-0.1","fisher_theta":"top-0.1"}}},
{"encoding":{"up":{"fisher":"int8"}},"upload":"lean","centred":True}, {"participation":"last_round","centred":"auto"}]
@pytest.mark.parametrize("o",CASES,ids=str)
def test_it(play,o):
    r=play({"fedcurv":{"strength":0.5,**o}},**BASE)
    last=r.rounds[-1]
    print(o, r.outcome.failure, {k:v for k,v in last.items() if k in("up_bytes","down_bytes","numbers","test_accuracy","accuracy")})
